"""Consistent tensors: values that depend only on a name and the position in the whole tensor.

Every rank generates its own shard, without communication, and all layouts of a model agree bit for
bit. schemas/consistent-v1.md is the definition.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from ttrace_torch.base.names import check_name
from ttrace_torch.base.process import current_rank
from ttrace_torch.errors import TraceError
from ttrace_torch.init.generate import generated
from ttrace_torch.init.normal import normal
from ttrace_torch.init.philox import check_seed, tensor_key
from ttrace_torch.layout.local_layout import LocalLayout, local_layout_of
from ttrace_torch.layout.mesh import Mesh
from ttrace_torch.layout.meshes import Meshes
from ttrace_torch.layout.placements import Partial, Placement, Placements
from ttrace_torch.layout.shapes import normalised


def consistent(
    name: str,
    shape: Sequence[int],
    *,
    mean: float = 0.0,
    scale: float = 1.0,
    dtype: torch.dtype = torch.float32,
    placements: Placements | None = None,
    mesh: Mesh | None = None,
    rank: int | None = None,
    seed: int = 0,
    device: torch.device | str | None = None,
) -> torch.Tensor:
    """This rank's shard of the tensor called `name`: normal numbers, the same in every layout.

    shape: shape of the whole tensor.
    mean, scale: mean and standard deviation of the normal distribution.
    dtype: a floating-point type. The values are computed in float32, then rounded to it.
    placements: axis of `mesh` -> placement; replicated by default. Under `Flat` the shard is the
        range, in one dimension; a coordinate that `Only` excludes gets no elements.
    rank: by default torch.distributed's if it is initialised, else the variable RANK, else 0.
    seed: 0 to 2^64 - 1; another seed gives other values under all names.

    Throws TraceError if the placements do not fit the shape, and for `Partial` and `Rows`, which do
    not determine the rank's values.
    """
    what = f"consistent({name!r}, {list(shape)})"
    check_name(name, "tensor")
    if not dtype.is_floating_point:
        raise TraceError(f"{what}: {dtype} is no floating-point type")
    if any(extent < 0 for extent in shape):
        raise TraceError(f"{what}: an extent is negative")
    mesh = Mesh() if mesh is None else mesh
    given = {} if placements is None else placements
    Meshes(mesh).of(given, what)
    placed = normalised(given, len(shape), mesh, what)
    for axis, placement in placed.items():
        check_determined(placement, f"{what}, axis {axis}")
        if placement.declared_extent is not None:
            dim, size = placement.declared_extent
            if size != shape[dim]:
                raise TraceError(
                    f"{what}, axis {axis}: dimension {dim} is said to be {size} long as a whole; "
                    "give consistent() the shape of the whole tensor"
                )
    rank = current_rank() if rank is None else rank
    mesh.coordinate(rank)
    layout = local_layout_of(shape, placed, mesh, rank, what)
    if layout is None:
        return torch.empty(0, dtype=dtype, device=device)
    values = consistent_values(name, layout, mean, scale, seed)
    return values.to(dtype).to(device)


def consistent_values(
    name: str, layout: LocalLayout, mean: float, scale: float, seed: int
) -> torch.Tensor:
    """The elements `layout` of the tensor called `name`: float32 on the CPU, of the local shape."""
    key = tensor_key(check_seed(seed, name), name)
    array = generated(key, layout, lambda words: normal(words, mean, scale), np.float32)
    return torch.from_numpy(array)


def check_determined(placement: Placement, what: str) -> None:
    """Throws TraceError for a placement that does not determine a rank's values."""
    if isinstance(placement, Partial):
        raise TraceError(
            f"{what}: a {placement} has terms that its sum does not tell; generate the whole "
            "tensor, Replicate(), and reduce nothing"
        )
