"""Numbers a step's micro-batches by the forwards of the whole model, if nothing else numbers them.

The n-th forward of a rank begins its n-th micro-batch; `Turns` knows its global number.
Recomputation, evaluation and forwards inside the user's `microbatch()` do not count. Two forwards
before one backward are two calls of one micro-batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Callable

import torch
from torch import nn

from ttrace_torch.base import pytree
from ttrace_torch.base.names import ROOT, ModelNames
from ttrace_torch.capture.calls import in_backward
from ttrace_torch.capture.step import Step
from ttrace_torch.capture.turns import Turns
from ttrace_torch.errors import TraceError


class Forwards:
    """The forwards of one step.

    step: the step whose current micro-batch is set.
    counts: whether the micro-batches are numbered here; a framework may know them better.
    shares_batch: whether a micro-batch with these inputs is that of all data-parallel ranks.
    """

    def __init__(
        self,
        step: Step,
        counts: bool,
        turns: Turns,
        shares_batch: Callable[[Sequence[torch.Tensor]], bool],
    ) -> None:
        self._step = step
        self._counts = counts
        self._shares_batch = shares_batch
        self._turns = turns
        self._count = 0
        # Whether a backward has passed the output of the last forward.
        self._passed = False
        step.calls.microbatch = turns.first

    def attach(
        self, names: ModelNames, compiled: Mapping[str, nn.Module], stack: ExitStack
    ) -> None:
        """Follows the forwards of the whole model until `stack` ends.

        compiled: what `compiled_of` says.
        """
        whole = compiled.get(ROOT, names.modules.get(ROOT))
        in_place = ROOT in compiled and whole is names.modules[ROOT]
        if self._counts and whole is not None and not in_place:
            begin = whole.register_forward_pre_hook(self._begin, with_kwargs=True)
            stack.callback(begin.remove)
            stack.callback(whole.register_forward_hook(self._end).remove)

    def _begin(self, module: Any, args: Any, kwargs: Any) -> None:
        step = self._step
        if step.calls.paused or step.in_microbatch or in_backward() or not torch.is_grad_enabled():
            return
        if self._count and not self._passed:
            step.recorder.problems.say_once(
                "the model ran forward twice before a backward, which is recorded as two calls of "
                "one micro-batch; where they are two, give each `with tracer.microbatch(n):`"
            )
            return
        self._passed = False
        turn, self._count = self._count, self._count + 1
        try:
            if self._shares_batch(pytree.tensors_in((args, kwargs))):
                self._turns.share()
            step.calls.microbatch = self._turns.number(turn)
        except TraceError as error:
            step.spoiled = str(error)

    def _end(self, module: Any, args: Any, output: Any) -> None:
        if self._passed or in_backward() or not torch.is_grad_enabled():
            return
        try:
            for tensor in pytree.tensors_in(output):
                if tensor.requires_grad and not tensor.is_leaf:
                    tensor.register_hook(self._pass)  # type: ignore[no-untyped-call]
        except Exception:
            # An output that cannot be looked at: the next forward is a micro-batch of its own.
            self._passed = True

    def _pass(self, gradient: torch.Tensor) -> None:
        self._passed = True
