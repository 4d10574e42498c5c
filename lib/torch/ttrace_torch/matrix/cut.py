"""What a function that cuts a model by hand says: how the parts lie, and what each step does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Callable

from torch import nn

from ttrace_torch.layout.layouts import Layout
from ttrace_torch.layout.placements import Partial, Placements, Replicate


@dataclass(frozen=True)
class Cut:
    """What `parallelize=` may return. Axes that a layout lacks are ignored.

    layouts: of tensors that are not whole and equal on all ranks; DTensors need none.
    batch: takes this rank's part of a micro-batch, which all ranks but the data-parallel get whole.
    loss: how the loss lies. {"cp": Partial("mean")} is the mean over this rank's tokens, which is
        divided by the number of these ranks before the backward pass: their gradients are then
        terms of a sum.
    target: how the target lies, with a `loss=` of the job's own, such as {"cp": Shard(1)}.
    after_backward: called with the model after the backward pass of a step, before the optimizer:
        sums the gradients that no wrapper sums.
    """

    layouts: Sequence[Layout] = ()
    batch: Callable[[Any], Any] | None = None
    loss: Placements | None = None
    target: Placements | None = None
    after_backward: Callable[[nn.Module], Any] | None = None


def ranks_averaged(cut: Cut, axes: Mapping[str, int]) -> int:
    """How many ranks' losses have the whole loss for their mean. axes: their sizes."""
    placements = cut.loss or {}
    return prod(axes.get(a, 1) for a, p in placements.items() if p == Partial("mean"))


# Every rank has everything.
WHOLE = Cut()


def axes_cut(model: nn.Module, cut: Cut) -> set[str]:
    """The axes over which a layout or a DTensor of the model lies in parts."""
    from torch.distributed.tensor import DTensor

    axes = {
        axis
        for layout in cut.layouts
        for placements in layout.all_placements()
        for axis, placement in placements.items()
        if placement != Replicate()
    }
    for parameter in model.parameters():
        if isinstance(parameter, DTensor):
            names = parameter.device_mesh.mesh_dim_names or ()
            placed = zip(names, parameter.placements)
            axes.update(name for name, placement in placed if not placement.is_replicate())
    return axes
