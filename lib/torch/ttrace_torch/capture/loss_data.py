"""What a loss is computed from and no module got, such as labels: recorded with its micro-batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ttrace_torch.base.names import ROOT
from ttrace_torch.capture.records import Key
from ttrace_torch.capture.step import Step, record_number, record_value
from ttrace_torch.errors import TraceError
from ttrace_torch.layout.assignment import Assignment
from ttrace_torch.layout.dtensor import is_dtensor
from ttrace_torch.layout.meshes import Meshes
from ttrace_torch.layout.placements import Partial, Placements


def record_loss_data(
    step: Step,
    assignment: Assignment,
    meshes: Meshes,
    loss: Placements | None,
    data: Mapping[str, Any],
) -> None:
    """Records `data`: name -> value, or (value, its placements).

    loss: how the loss lies. A rank that has a term of it has read one part of the samples or
        tokens, as a rule: its data lie as the model's input does. Where they have no extent of that
        input's, they are left out, with a line to add.
    """
    terms = [
        axis
        for axis, placed in (loss or {}).items()
        if isinstance(placed, Partial) and meshes.default.axes.get(axis, 1) > 1
    ]
    for name, given in data.items():
        value, placements = given if isinstance(given, tuple) else (given, None)
        batch = step.calls.microbatch
        with step.recorder.guarded(Key(step.number, None, "scalar", name)):
            if placements is not None:
                placements = meshes.known(placements)
            elif terms:
                placements = _as_input(assignment, terms, name, value)
            if batch is None:
                record_number(step, name, value, placements)
            else:
                record_value(step, "scalar", name, value, placements, batch)


def _as_input(assignment: Assignment, terms: list[str], name: str, value: Any) -> Placements | None:
    """How the data lie over the axes that the loss has terms over."""
    if not isinstance(value, torch.Tensor) or value.dim() == 0 or is_dtensor(value):
        return None
    root = assignment.modules.get(ROOT)
    known = {} if root is None else root.of_data(value)
    unknown = [axis for axis in terms if axis not in known]
    if unknown:
        told = ", ".join(f'"{axis}": tt.Shard(...)' for axis in unknown)
        lacking = ", ".join(unknown)
        raise TraceError(
            f"whether a rank has all of it or a part is not known, since each rank along {lacking} "
            f"has a term of the loss; say {name}=({name}, {{{told}}}), or {{}} in its place"
        )
    return {axis: known[axis] for axis in terms}
