"""Assigns each run of a module to a micro-batch and a call number.

A module's n-th run in a micro-batch is call n. A run inside a backward is recomputation, not a new
call:

- `use_reentrant=False`: the first pass has a graph, and its hooks receive the gradients. The
  recomputed tensors only supply values, so the run is not recorded.
- `use_reentrant=True` (and frameworks' own checkpoint functions of that shape): the first pass has
  no graph. The recomputation has one, and only its tensors get gradients, so it must be matched
  with the run it repeats. Both run inside the same autograd function and see its context object:
  the first pass leaves its runs there, and the recomputation takes them in the same order. This
  stays correct with several micro-batches under way and with segments recomputed in reverse.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.function import FunctionCtx

from ttrace_torch.base.microbatch import Batch

# Attribute of an autograd function's context: module name -> runs of its first pass.
_RUNS = "_ttrace_runs"


@dataclass(frozen=True)
class Run:
    """One run of one module.

    step: identity of the traced step, so that a late gradient is not assigned to a later step.
    recomputed: whether this is the second pass, the one with a graph.
    in_function: whether it ran without a graph inside an autograd function, as a first pass does.
    """

    step: object
    microbatch: Batch
    call: int
    recomputed: bool = False
    in_function: bool = False


def in_backward() -> bool:
    """Whether this thread is inside a backward."""
    inside: bool = torch._C._current_graph_task_id() != -1
    return inside


def in_function() -> bool:
    """Whether this thread runs inside the forward or backward of a custom autograd function."""
    return next(_functions_on_stack(), None) is not None


class CallCounter:
    """Numbers the runs of one traced step.

    earlier: module name -> its runs in other pipeline stages that come before those of this one.
    """

    def __init__(self, earlier: Mapping[str, int]) -> None:
        self._earlier = earlier
        self.microbatch: Batch = 0
        # While True, runs are not recorded.
        self.paused = False
        self._counts: dict[tuple[Batch, str], int] = {}

    def begin(self, name: str) -> Run | None:
        """The run of module `name` that begins; None if it is not recorded."""
        if self.paused:
            return None
        if in_backward():
            return self._repeated(name)
        key = (self.microbatch, name)
        count = self._counts.get(key, 0)
        self._counts[key] = count + 1
        call = self.first(name) + count
        functions = [] if torch.is_grad_enabled() else [ctx for ctx, _ in _functions_on_stack()]
        run = Run(self, self.microbatch, call, in_function=bool(functions))
        for ctx in functions:
            _leave(ctx, name, run)
        return run

    @property
    def any_run(self) -> bool:
        """Whether any run has been recorded."""
        return bool(self._counts)

    def count(self, microbatch: Batch, name: str) -> int:
        """Number of runs of module `name` in that micro-batch."""
        return self._counts.get((microbatch, name), 0)

    def first(self, name: str) -> int:
        """The number of the first run of module `name` in a micro-batch."""
        return self._earlier.get(name, 0)

    def _repeated(self, name: str) -> Run | None:
        inner = []
        for ctx, is_backward in _functions_on_stack():
            if not is_backward:
                inner.append(ctx)
                continue
            run = _take(ctx, name)
            if run is None or run.step is not self:
                return None
            if torch.is_grad_enabled():
                return Run(self, run.microbatch, run.call, recomputed=True)
            # A checkpoint inside a checkpoint: this pass is again one without a graph.
            for nested in inner:
                _leave(nested, name, run)
            return None
        return None


def _functions_on_stack() -> Iterator[tuple[Any, bool]]:
    """(context, whether it is the backward) of the running autograd functions, innermost first."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_name in ("forward", "backward") and code.co_varnames[:1] == ("ctx",):
            ctx = frame.f_locals.get("ctx")
            if isinstance(ctx, FunctionCtx):
                yield ctx, code.co_name == "backward"
        frame = frame.f_back  # type: ignore[assignment]


def _leave(ctx: Any, name: str, run: Run) -> None:
    if not hasattr(ctx, _RUNS):
        setattr(ctx, _RUNS, {})
    getattr(ctx, _RUNS).setdefault(name, []).append(run)


def _take(ctx: Any, name: str) -> Run | None:
    waiting: list[Run] = getattr(ctx, _RUNS, {}).get(name, [])
    return waiting.pop(0) if waiting else None
