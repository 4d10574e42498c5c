"""The state of an optimizer that a step begins with, tensor by tensor, for replaying its update."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch

from ttrace_torch.placement import Placements

# How often a parameter was updated; a number, in the manifest's `updates`.
_COUNT = "step"
# The wider copy of a parameter that is updated in its place.
MAIN_PARAM = "main_param"


class StateTensor(NamedTuple):
    """One tensor of an optimizer's state.

    parameter: canonical name of the parameter it belongs to.
    name: what the optimizer calls it, "exp_avg".
    lies_as_gradient: whether it has the shape of what is updated, and so lies as the main gradient.
    placements: how it lies, where that is not how the main gradient does.
    """

    parameter: str
    name: str
    value: torch.Tensor
    lies_as_gradient: bool
    placements: Placements | None = None


def state_tensors(
    optimizer: Any, by_id: Mapping[int, str], parameters: Mapping[str, torch.Tensor]
) -> Iterator[StateTensor]:
    """All tensors in the state of a torch optimizer, but for the counts of updates.

    by_id: identity of a tensor in the groups -> canonical name of the parameter it stands for.
    parameters: canonical name -> parameter. What is updated in the place of a narrower parameter
        comes first, as "main_param".
    """
    state = getattr(optimizer, "state", {})
    for group in getattr(optimizer, "param_groups", []):
        for updated in group["params"]:
            name = by_id.get(id(updated))
            if name is None:
                continue
            parameter = parameters.get(name)
            if parameter is not None and updated.dtype != parameter.dtype:
                yield StateTensor(name, MAIN_PARAM, updated, True)
            for key, value in state.get(updated, {}).items():
                if isinstance(value, torch.Tensor) and key != _COUNT:
                    yield StateTensor(name, str(key), value, value.shape == updated.shape)
