"""The optimizer's state: its tensors, and their records in the layout of the main gradients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import torch

from ttrace_torch.base.names import check_name
from ttrace_torch.capture.records import Key
from ttrace_torch.capture.step import Step
from ttrace_torch.errors import TraceError
from ttrace_torch.layout.assignment import Assignment
from ttrace_torch.layout.dtensor import is_dtensor, reduced_like, storage_of
from ttrace_torch.layout.meshes import Meshes
from ttrace_torch.layout.placements import Flat, Placements

_KIND = "optimizer_state"
# The number of updates of a parameter. It goes into the manifest's `updates`.
_COUNT = "step"
# The wider copy of a parameter that is updated in its place.
MAIN_PARAM = "main_param"


class StateTensor(NamedTuple):
    """One tensor of an optimizer's state.

    parameter: canonical name of its parameter.
    name: the optimizer's name for it, such as "exp_avg".
    like_gradient: whether it has the shape of the updated tensor, and so the layout of the main
        gradient.
    placements: its placements, if they differ from those of the main gradient.
    """

    parameter: str
    name: str
    value: torch.Tensor
    like_gradient: bool
    placements: Placements | None = None


def state_tensors(
    optimizer: Any, by_id: Mapping[int, str], parameters: Mapping[str, torch.Tensor]
) -> Iterator[StateTensor]:
    """All tensors in the state of a torch optimizer, without the numbers of updates.

    by_id: id of a tensor in the parameter groups -> canonical name of its parameter.
    parameters: canonical name -> parameter. An updated tensor in another dtype than its parameter
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


def record_states(
    states: Iterable[StateTensor],
    parameters: Mapping[str, torch.Tensor],
    assignment: Assignment,
    step: Step,
    meshes: Meshes,
    rank: int,
) -> None:
    """Records `states` of the chosen `parameters` (canonical name -> parameter).

    A tensor of another shape than the updated one is recorded if the parameter is replicated.
    Otherwise its layout is unknown and it is left out, as a tensor that does not fit its layout; of
    a DTensor, a plain tensor of the shape of the rank's part, or of some of its dimensions, lies as
    the part does.
    So is a range of a parameter whose main gradient has the parameter's own layout: the ranges
    would be taken for replicas, and healthy ones would be blamed for their differences.
    """
    met: dict[str, torch.dtype] = {}
    owned: set[str] = set()
    for state in states:
        owned.add(state.parameter)
        if state.like_gradient:
            met[state.name] = state.value.dtype
        if state.parameter not in parameters:
            continue
        key = _key(step, state.parameter, state.name)
        if _is_of_part(state.value, parameters[state.parameter]):
            placed = reduced_like(parameters[state.parameter], state.value, state.name)
            if placed is None:
                step.recorder.leave_out(key, _unknown(state.value))
            else:
                step.recorder.add(key, placed, {})
            continue
        placements = state.placements
        if placements is None:
            assigned = assignment.parameters[state.parameter]
            placements = assigned.of("main_grad")
            whole = parameters[state.parameter]
            # A parameter may be empty outside of its module's forward, or whole though its layout
            # is a range, as DeepSpeed leaves it.
            no_range = placements == assigned.of("param") and not _is_flat(placements)
            if state.like_gradient and no_range and state.value.numel() < whole.numel():
                step.recorder.leave_out(key, _of_a_range(state.value, whole))
                continue
        if state.like_gradient:
            value = _in_shape(state.value, parameters[state.parameter], placements)
            step.recorder.add(key, value, placements)
        elif placements and state.value.dim() > 0:
            step.recorder.leave_out(key, _unknown(state.value))
        else:
            step.recorder.add(key, state.value, {})
    # A sharding optimizer has no state for an empty range, but the trace must contain the empty
    # shard.
    for name in parameters:
        placements = assignment.parameters[name].of("main_grad")
        if name not in owned and _range_is_empty(placements, meshes, rank):
            for state_name, dtype in met.items():
                empty = torch.empty(0, dtype=dtype)
                step.recorder.add(_key(step, name, state_name), empty, placements)


def _key(step: Step, parameter: str, state: str) -> Key:
    name = check_name(f"{parameter}.{state}", "optimizer state")
    return Key(step.number, None, _KIND, name)


def _is_of_part(value: torch.Tensor, parameter: torch.Tensor) -> bool:
    """Whether a plain state was made from this rank's part of a parameter that is a DTensor."""
    if not is_dtensor(parameter) or is_dtensor(value) or value.dim() == 0:
        return False
    return value.shape != parameter.shape != storage_of(parameter).shape


def _unknown(value: torch.Tensor) -> TraceError:
    shape = list(value.shape)
    return TraceError(f"how a state of shape {shape} lies over the mesh is not known")


def _of_a_range(value: torch.Tensor, parameter: torch.Tensor) -> TraceError:
    return TraceError(
        f"it has {value.numel()} of the {parameter.numel()} elements that this rank holds of the"
        " parameter, and no layout says which; if the optimizer keeps a range, say so of its main"
        " gradient, with Layout(module, main_grads={name: {axis: Flat(...)}})"
    )


def _in_shape(value: torch.Tensor, parameter: torch.Tensor, placements: Placements) -> torch.Tensor:
    """The state in the parameter's shape, if the optimizer keeps it flat and whole."""
    same = value.shape == parameter.shape or value.numel() != parameter.numel()
    return value if same or _is_flat(placements) else value.view(parameter.shape)


def _is_flat(placements: Placements) -> bool:
    return any(isinstance(placement, Flat) for placement in placements.values())


def _range_is_empty(placements: Placements, meshes: Meshes, rank: int) -> bool:
    for axis, placement in placements.items():
        if isinstance(placement, Flat):
            _, grid = meshes.of(placements, _KIND)
            if not grid.holds(rank):
                return False
            start, stop = placement.ranges[grid.coordinate(rank)[axis]]
            return start == stop
    return False
