"""Stages of torch.distributed.pipelining: their names, their micro-batches, their gradients'
divisor.

A schedule numbers micro-batches itself and hands the number to its stages. Before the first one it
may infer shapes with a forward and a backward of every stage. These compute nothing meaningful:
later stages run on uninitialised memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any, Callable

import torch
from torch import distributed, nn

from ttrace_torch.base import pytree
from ttrace_torch.base.names import ROOT, Naming
from ttrace_torch.capture.compiled import compiled_in_place
from ttrace_torch.capture.turns import Turns
from ttrace_torch.errors import TraceError
from ttrace_torch.frameworks.framework import Listener, StepWatch

SharesBatch = Callable[[Sequence[torch.Tensor]], bool]

_PACKAGE = "torch.distributed.pipelining."
_REHEARSALS = ("_prepare_forward_infra", "_prepare_backward_infra")
_BACKWARD, _BACKWARD_OF_WEIGHTS = "backward_one_chunk", "backward_weight_one_chunk"


def pipeline_of(model: Any) -> Pipeline | None:
    """The pipeline of a schedule, a stage or a list of stages; None for other models."""
    if _made_of(model, "_PipelineSchedule"):
        stages = getattr(model, "_stages", None) or [model._stage]
        return Pipeline(list(stages), model)
    stages = list(model) if isinstance(model, (list, tuple)) else [model]
    if stages and all(_made_of(stage, "_PipelineStageBase") for stage in stages):
        return Pipeline(stages, None)
    return None


class Pipeline:
    """A rank's stages, in order, and the schedule that runs them, if it is known."""

    label = "pipelining"

    def __init__(self, stages: Sequence[Any], schedule: Any) -> None:
        self._stages = sorted(stages, key=lambda stage: int(stage.stage_index))
        self._schedule = schedule
        first, last = self.ends
        if first == last and self._stages[0].num_stages > 1:
            raise TraceError(
                "the first and the last stage on one rank (a schedule in the shape of a V): which "
                "of them has the whole model's input and output is not described yet; trace with "
                "a schedule that deals the stages out in turn"
            )

    @property
    def parts(self) -> list[nn.Module]:
        """The modules of the stages."""
        return [stage.submod for stage in self._stages]

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks of the pipeline, in order."""
        group = self._stages[0].group or distributed.group.WORLD
        return tuple(distributed.get_process_group_ranks(group))

    @property
    def ends(self) -> tuple[int, int]:
        """The positions in `ranks` of the first and of the last stage."""
        stage = self._stages[0]
        where = stage.stage_index_to_group_rank
        return int(where[0]), int(where[stage.num_stages - 1])

    @property
    def divisor(self) -> float | None:
        """The number that the schedule divides gradients by; None without a schedule."""
        if self._schedule is None:
            return None
        return float(self._schedule._n_microbatches if self._schedule.scale_grads else 1)

    def naming(self) -> StageNaming:
        """Maps the names of the stages' modules."""
        return StageNaming(self._stages)

    @contextmanager
    def watching(
        self, tracer: Listener, turns: Turns, shares_batch: SharesBatch
    ) -> Iterator[StepWatch]:
        """A context that tells `tracer` the micro-batches of one step.

        turns: numbers them, over all runs of the schedule in the step.
        shares_batch: whether a micro-batch with these inputs is that of all data-parallel ranks.
        """
        repeating: list[int] = []
        with ExitStack() as stack:
            if self._schedule is not None:
                _wrap(stack, self._schedule, "eval", lambda *_: tracer.unrecorded())
            for stage in self._stages:
                chunks = _Chunks(stage, tracer, turns, shares_batch)
                if not compiled_in_place(stage.submod):
                    hook = stage.submod.register_forward_pre_hook
                    stack.callback(hook(chunks.begin, prepend=True, with_kwargs=True).remove)
                for name in _REHEARSALS:
                    if hasattr(stage, name):
                        _wrap(stack, stage, name, lambda *_: tracer.unrecorded())
                _wrap(stack, stage, "forward_one_chunk", chunks.forward)
                _wrap(stack, stage, _BACKWARD, chunks.backward)
                if hasattr(stage, _BACKWARD_OF_WEIGHTS):
                    _wrap(stack, stage, _BACKWARD_OF_WEIGHTS, chunks.backward)
                    if not stage.is_first:
                        # The backward passes the outputs again for the gradients of weights. The
                        # first stage, whose input needs no gradient, computes everything here.
                        again = partial(_listed, repeating)
                        _wrap(stack, stage, _BACKWARD_OF_WEIGHTS, again)
            yield StepWatch(repeats_outputs=lambda: bool(repeating))


class _Chunks:
    """The chunks of one stage in a traced step, over one run of the schedule or several."""

    def __init__(
        self, stage: Any, tracer: Listener, turns: Turns, shares_batch: SharesBatch
    ) -> None:
        self._stage = stage
        self._tracer = tracer
        self._turns = turns
        self._shares_batch = shares_batch
        # The chunk whose forward has begun, while that of the stage's module has not.
        self._next: int | None = None
        self._runs = 0
        # The chunks that the current run has begun.
        self._begun: set[int] = set()

    def forward(self, chunk: int) -> AbstractContextManager[Any]:
        """Around a forward."""
        if self._evaluates():
            return self._tracer.unrecorded()
        # Known once the schedule has run.
        self._turns.expected = int(self._stage.chunks)
        if not self._begun or chunk in self._begun:
            self._runs += 1
            self._begun.clear()
        self._begun.add(chunk)
        self._next = chunk
        if compiled_in_place(self._stage.submod):
            # A hook would be compiled, too.
            self.begin(self._stage.submod, (), {})
        return nullcontext()

    def begin(self, module: Any, args: Any, kwargs: Any) -> None:
        """Before the forward of the stage's module, whose inputs are there by then: its micro-batch
        stays current for the loss, computed after it."""
        chunk, self._next = self._next, None
        if chunk is None:
            return
        try:
            if self._shares_batch(pytree.tensors_in((args, kwargs))):
                self._turns.share()
            self._tracer.begin_microbatch(self._number(chunk))
        except TraceError as error:
            self._tracer.spoil(str(error))

    def backward(self, chunk: int) -> AbstractContextManager[Any]:
        """Around a backward, which runs while a later forward's micro-batch is current."""
        if self._evaluates():
            return nullcontext()
        try:
            return self._tracer.microbatch(self._number(chunk))
        except TraceError:
            return nullcontext()  # the forward has said so

    def _evaluates(self) -> bool:
        return not getattr(self._stage, "has_backward", True)

    def _number(self, chunk: int) -> int:
        return self._turns.number((self._runs - 1) * int(self._stage.chunks) + chunk)


class StageNaming(Naming):
    """Names of a model in stages. Only the first and the last stage have modules of the whole
    model.

    The root of the first stage has the whole model's input, that of the last one its output.
    """

    def __init__(self, stages: Sequence[Any]) -> None:
        self._stages = {id(stage.submod): stage for stage in stages}
        self._of = stages

    def parts(self, model: Any) -> list[nn.Module]:
        return [stage.submod for stage in self._of]

    def of_modules(self, part: nn.Module) -> dict[str, str | None]:
        stage = self._stages[id(part)]
        outer = stage.is_first or stage.is_last
        found: dict[str, str | None] = {}
        modules = dict(part.named_modules())
        for path, name in super().of_modules(part).items():
            # A list of layers is never called, and every stage has one of that name.
            shared = name == ROOT or isinstance(modules[path], (nn.ModuleList, nn.ModuleDict))
            found[path] = None if shared and not outer else name
        return found

    def place(self, part: nn.Module) -> tuple[int, ...]:
        return (int(self._stages[id(part)].stage_index),)


def _made_of(thing: Any, base: str) -> bool:
    return any(
        cls.__name__ == base and cls.__module__.startswith(_PACKAGE) for cls in type(thing).__mro__
    )


@contextmanager
def _listed(known: list[int], chunk: int) -> Iterator[None]:
    """Keeps `chunk` in the list inside the context."""
    known.append(chunk)
    try:
        yield
    finally:
        known.remove(chunk)


def _wrap(stack: ExitStack, stage: Any, name: str, context: Callable[..., Any]) -> None:
    """Runs a stage's method inside a context made from its first argument, until `stack` ends."""
    method = getattr(stage, name)
    had = name in vars(stage)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with context(*args[:1]):
            return method(*args, **kwargs)

    setattr(stage, name, wrapped)

    def put_back() -> None:
        if had:
            setattr(stage, name, method)
        else:
            delattr(stage, name)

    stack.callback(put_back)
