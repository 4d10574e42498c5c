"""Parameters, and the facts about each that the rest of the trainer asks for.

- `p.shards`: mesh axis -> the dimension of the whole parameter that is cut over it;
- `p.sequence_parallel`: set, and True, where each tensor-parallel rank sees only its part of the
  sequence, so that the raw gradients still have to be summed over tp;
- `p.tied`: set, and True, where the first and the last pipeline stage each have a copy, whose
  gradients have to be added;
- `p.expert`: set, and True, on an expert's parameters. Their gradients are of all tokens of the
  ranks of ep, and still have to be summed over edp instead of tp, cp and dp.

They are attributes because the frameworks keep them so: what loses the attribute loses the sum.
"""

from collections.abc import Mapping

import torch
from torch import nn

from gallery.parallel import ProcessMesh


def parameter(
    shape: tuple[int, ...],
    dtype: torch.dtype,
    mesh: ProcessMesh,
    shards: Mapping[str, int] | None = None,
    sequence_parallel: bool = False,
) -> nn.Parameter:
    """An uninitialised parameter, this rank's shard of one whose whole shape is `shape`."""
    local = list(shape)
    for axis, dimension in (shards or {}).items():
        local[dimension] //= mesh[axis].size
    created = nn.Parameter(torch.empty(local, dtype=dtype))
    created.shards = dict(shards or {})
    if sequence_parallel:
        created.sequence_parallel = True
    return created


def is_sequence_parallel(parameter: nn.Parameter) -> bool:
    return getattr(parameter, "sequence_parallel", False)


def is_expert(parameter: nn.Parameter) -> bool:
    return getattr(parameter, "expert", False)


def is_tied(parameter: nn.Parameter) -> bool:
    return getattr(parameter, "tied", False)
