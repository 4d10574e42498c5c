"""The interface between the tracer and a training framework, and its defaults for plain PyTorch."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Callable, Protocol

import torch
from torch import nn

from ttrace_torch.base.microbatch import Batch
from ttrace_torch.base.names import ROOT, ModelNames, Naming
from ttrace_torch.base.process import world_size
from ttrace_torch.capture.selection import Selection
from ttrace_torch.capture.turns import Turns
from ttrace_torch.layout.assignment import Assignment
from ttrace_torch.layout.mesh import Mesh
from ttrace_torch.optimizer.several import OptimizersWatch
from ttrace_torch.optimizer.state import StateTensor
from ttrace_torch.optimizer.watch import OptimizerWatch


class Listener(Protocol):
    """The tracer as a framework sees it: the events of a traced step."""

    def microbatch(self, number: int) -> AbstractContextManager[Any]:
        """A context for what belongs to the global micro-batch `number`."""

    def begin_microbatch(self, number: int) -> bool:
        """Begins micro-batch `number`. Returns False if the user's own context decides."""

    def unrecorded(self) -> AbstractContextManager[Any]:
        """A context in which nothing is recorded."""

    def main_grads(self) -> None:
        """The gradients are final."""

    def grad_norm(self, norm: torch.Tensor | float, clip_norm: float | None = None) -> None:
        """The norm of the gradients is known."""

    def before_update(self, part: Any = None) -> None:
        """The optimizer is about to make its step; of several, the one that `part` watches."""

    def after_update(self, part: Any = None) -> None:
        """The optimizer has made its step; of several, the one that `part` watches."""

    def evaluated_again(self) -> AbstractContextManager[Any]:
        """A context for an evaluation of the optimizer's closure after the first one of a step."""

    def spoil(self, why: str) -> None:
        """Marks the step's records as wrong: they are dropped when it ends."""


class Watch(Protocol):
    """Follows an optimizer, and tells the tracer of its steps."""

    def remove(self) -> None:
        """Stops following the optimizer."""

    def entries(self, step: int, names: ModelNames) -> list[dict[str, Any]]:
        """The manifest's entries for the coming optimizer step."""

    def states(self, names: ModelNames) -> Iterable[StateTensor]:
        """The optimizer's state at the beginning of the coming step."""

    def held(self, names: ModelNames) -> set[str] | None:
        """The parameters whose tensor, or a copy updated in its place, the optimizer's groups hold;
        None if this rank alone cannot tell."""


@dataclass
class StepWatch:
    """A framework's answers while a step is traced.

    backward_batch: parameter name, n -> micro-batch of the parameter's n-th backward in the step;
        None if it is the current micro-batch.
    repeats_outputs: whether the current backward passes outputs whose gradients are recorded
        already.
    divided_behind_loss: loss -> function that tells, while its backward runs, by what the framework
        divides the gradients of what the model returns; None for a loss that the model returns.
    after_other_hooks: whether the framework changes gradients of outputs by hooks that it makes
        after the tracer's, so that what they leave is to be recorded.
    """

    backward_batch: Callable[[str, int], Batch | None] | None = None
    repeats_outputs: Callable[[], bool] | None = None
    after_other_hooks: bool = False
    divided_behind_loss: Callable[[torch.Tensor], Callable[[], int] | None] | None = None


class Framework:
    """Plain PyTorch: the user's arguments describe everything.

    An adapter derives from it, overrides what its framework knows, and is registered with
    `register_framework`.
    """

    # The word of `trace(framework=...)`.
    name = "none"
    # The framework and its version, in the manifest.
    label = f"PyTorch {torch.__version__.partition('+')[0]}"
    # Whether each forward of the whole model with a backward of its own is a micro-batch.
    counts_forwards = True
    # Whether the framework numbers the micro-batches, so that nobody else may say how.
    numbers_microbatches = False
    # Whether the user gives the optimizer.
    expects_optimizer = True
    # Number of ranks if nothing describes how the job is distributed; 1 otherwise.
    _bare = 1

    def __init__(self, model: Any) -> None:
        """model: what `trace` was given. Throws TraceError if it is not of this framework."""

    @staticmethod
    def made(model: Any) -> bool:
        """Whether `model`, whatever `trace` was given, is of this framework. Must not import
        the framework: a job that uses it has done so."""
        return False

    def naming(self) -> Naming:
        """Maps the model's names to canonical ones."""
        return Naming()

    def model_class(self, names: ModelNames) -> str:
        """Name of the class of the whole model, for the manifest."""
        return type(names.modules[ROOT]).__name__

    def meshes(
        self, mesh: Mesh | None, meshes: Mapping[str, Mesh] | None
    ) -> tuple[Mesh, Mapping[str, Mesh] | None]:
        """The default mesh and the named ones, from those that the user gave."""
        if mesh is not None:
            return mesh, meshes
        self._bare = world_size()
        # The ranks may share out data, but not the model.
        return Mesh() if self._bare == 1 else Mesh({"dp": self._bare}), meshes

    def layouts(self, names: ModelNames, described: Sequence[str]) -> Assignment:
        """The layouts of modules and parameters that the framework knows; the user's override them.

        described: the patterns of the user's layouts.
        """
        return Assignment({}, {})

    def check(self, selection: Selection, optimizer: Any) -> None:
        """Throws TraceError if the job computes the selected tensors in a way that a trace
        cannot describe."""

    def scales(self) -> dict[str, float]:
        """Kind -> factor that its tensors of the coming step must be multiplied by."""
        return {}

    def data_ranks(self) -> tuple[int, ...] | None:
        """The data-parallel ranks that this one belongs to, in the order of their numbers; None if
        no wrapper deals out data, so that the axes of the mesh decide."""
        return None

    def shares_batch(self, inputs: Sequence[torch.Tensor], ranks: Collection[int]) -> bool:
        """Whether a forward of the whole model on `inputs` is that of one micro-batch of which all
        data-parallel `ranks` hold parts."""
        return False

    def mistakes(self) -> Iterator[str]:
        """Sentences about how the model is distributed that cannot be meant so."""
        if self._bare > 1:
            yield (
                f"{self._bare} ranks run a model without any wrapper or device mesh, which is "
                "taken for data parallelism; call trace() after wrapping or sharding the model, or "
                "give trace(mesh=tt.Mesh({...})) the axes of the job"
            )

    def optimizer(self, given: Any) -> Any:
        """The optimizer to follow, given the user's; None without one."""
        return given

    def held(self, name: str, parameter: nn.Parameter, kind: str) -> torch.Tensor | None:
        """This rank's shard of a parameter, or for the kind "main_grad" of its final gradient.

        Returns None if there is no gradient.
        """
        if kind != "main_grad":
            return parameter
        main: torch.Tensor | None = getattr(parameter, "main_grad", None)
        return parameter.grad if main is None else main

    def watch_optimizer(self, optimizer: Any, tracer: Listener) -> Watch:
        """Tells `tracer` of the optimizer's steps, traced or not."""
        events = tracer.before_update, tracer.after_update, tracer.evaluated_again
        if isinstance(optimizer, list):
            return OptimizersWatch(optimizer, *events)
        return OptimizerWatch(optimizer, *events)

    def watch_step(self, tracer: Listener, turns: Turns) -> AbstractContextManager[StepWatch]:
        """A context that tells `tracer` the events of a traced step.

        turns: numbers this rank's micro-batches.
        """
        return nullcontext(StepWatch())
