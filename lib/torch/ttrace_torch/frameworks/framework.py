"""The interface between the tracer and a training framework, and plain PyTorch's answers to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Callable, Protocol

import torch
from torch import nn

from ttrace_torch.base.microbatch import Batch
from ttrace_torch.base.names import ROOT, ModelNames, Naming
from ttrace_torch.capture.selection import Selection
from ttrace_torch.layout.assignment import Assignment
from ttrace_torch.layout.mesh import Mesh
from ttrace_torch.optimizer.state import StateTensor
from ttrace_torch.optimizer.watch import OptimizerWatch


class Listener(Protocol):
    """The tracer, as a framework sees it: what it must be told while a step is traced."""

    def microbatch(self, number: int) -> AbstractContextManager[Any]:
        """A context for what belongs to the global micro-batch `number`."""

    def begin_microbatch(self, number: int) -> bool:
        """Micro-batch `number` begins; returns False where the user's own context decides."""

    def unrecorded(self) -> AbstractContextManager[Any]:
        """A context for what is not recorded."""

    def main_grads(self) -> None:
        """The final gradients are there."""

    def grad_norm(self, norm: torch.Tensor | float, clip_norm: float | None = None) -> None:
        """The norm of the gradients is known."""

    def before_update(self) -> None:
        """The optimizer is about to make its step."""

    def after_update(self) -> None:
        """The optimizer has made its step."""


class Watch(Protocol):
    """Follows an optimizer; tells the tracer of its steps."""

    def remove(self) -> None:
        """Lets go of the optimizer."""

    def entries(self, step: int, names: ModelNames) -> list[dict[str, Any]]:
        """The manifest's entries for the optimizer step about to be made."""

    def states(self, names: ModelNames) -> Iterable[StateTensor]:
        """The state of the optimizer that the coming step begins with."""


@dataclass
class StepWatch:
    """What a framework tells while a step is traced.

    backward_batch: parameter name, n -> the micro-batch of its n-th backward in the step; None
        where the micro-batch at hand is right.
    repeats_outputs: whether the backward under way passes outputs whose gradients are known.
    """

    backward_batch: Callable[[str, int], Batch | None] | None = None
    repeats_outputs: Callable[[], bool] | None = None


class Framework:
    """Plain PyTorch: the user says everything."""

    label = "PyTorch"

    def naming(self) -> Naming:
        """What makes the model's canonical names."""
        return Naming()

    def model_class(self, names: ModelNames) -> str:
        """Name of the class of the whole model, for the manifest."""
        return type(names.modules[ROOT]).__name__

    def meshes(
        self, mesh: Mesh | None, meshes: Mapping[str, Mesh] | None
    ) -> tuple[Mesh, Mapping[str, Mesh] | None]:
        """The default mesh and the named ones, from those that the user gave."""
        return Mesh() if mesh is None else mesh, meshes

    def layouts(self, names: ModelNames, described: Sequence[str]) -> Assignment:
        """What is known of modules and parameters before the user's layouts are looked at.

        described: the patterns of the user's layouts.
        """
        return Assignment({}, {})

    def check(self, selection: Selection, optimizer: Any) -> None:
        """Throws TraceError where what is to be recorded cannot be told from what the job does."""

    def scales(self) -> dict[str, float]:
        """Kind -> what its tensors of the coming step must be multiplied by."""
        return {}

    def data_rank(self) -> tuple[int, int] | None:
        """This rank's number among those that share out the data, and how many they are.

        None where that is not known.
        """
        return None

    def optimizer(self, given: Any) -> Any:
        """The optimizer to follow, from the one that the user gave, or None."""
        return given

    def held(self, name: str, parameter: nn.Parameter, kind: str) -> torch.Tensor | None:
        """What this rank holds of a parameter, or for the kind "main_grad" of its final gradient.

        None where there is no gradient.
        """
        if kind != "main_grad":
            return parameter
        main: torch.Tensor | None = getattr(parameter, "main_grad", None)
        return parameter.grad if main is None else main

    def watch_optimizer(self, optimizer: Any, tracer: Listener) -> Watch:
        """Tells `tracer` of the optimizer's steps, traced or not."""
        return OptimizerWatch(optimizer, tracer.before_update, tracer.after_update)

    def watch_step(self, tracer: Listener) -> AbstractContextManager[StepWatch]:
        """Tells `tracer` what happens in a step that it traces."""
        return nullcontext(StepWatch())
