"""Counts an engine's forwards in a traced step, to number the micro-batches."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable

import torch
from torch import nn

from ttrace_torch.base.pytree import tensors_in
from ttrace_torch.capture.calls import in_backward
from ttrace_torch.errors import TraceError
from ttrace_torch.frameworks.deepspeed_api import Engine
from ttrace_torch.frameworks.framework import Listener, StepWatch

_DIVIDES_THE_LOSS = (0, 19, 6)
_OWN = "say which it is with `with tracer.microbatch(n)` around each forward and backward"


class MicroSteps:
    """Follows one traced step.

    The number of a micro-batch is data-parallel rank * micro-batches per rank + turn. Forwards
    without gradients, such as an evaluation, are not counted.
    """

    def __init__(self, engine: Engine, tracer: Listener, place: int) -> None:
        self._engine = engine
        self._tracer = tracer
        self._share = int(engine.gradient_accumulation_steps())
        self._first = place * self._share
        self._counted = 0
        self._backwards = 0
        self._in_backward = False  # in engine.backward()
        # What the model returned last, as node of the graph and place.
        self._returned: set[tuple[int, int]] = set()

    @contextmanager
    def watching(self) -> Iterator[StepWatch]:
        """Counts forwards and backwards. Throws TraceError if they are not those of one step."""
        engine = self._engine
        self._check_begin()
        before = vars(engine).get("backward")
        handles = [
            engine.module.register_forward_pre_hook(self._forward, prepend=True),
            engine.module.register_forward_hook(self._note_returned),
        ]
        engine.backward = self._followed(engine.backward)
        try:
            # Hooks of the engine divide the gradients of what the model returns.
            yield StepWatch(after_other_hooks=True, divided_behind_loss=self._divided_behind)
        finally:
            for handle in handles:
                handle.remove()
            if before is None:
                vars(engine).pop("backward", None)
            else:
                engine.backward = before
        self._check_end()

    def _forward(self, *_: Any) -> None:
        if in_backward() or not torch.is_grad_enabled():
            return
        if not self._tracer.begin_microbatch(self._first + self._counted):
            return
        self._counted += 1
        if self._counted > self._share:
            self._tracer.spoil(
                f"forward {self._counted} in a step of {self._share} micro-batches "
                f"(gradient_accumulation_steps); {_OWN}"
            )

    def _followed(self, backward: Callable[..., Any]) -> Callable[..., Any]:
        def traced_backward(*args: Any, **kwargs: Any) -> Any:
            if self._counted and self._counted != self._backwards + 1:
                self._tracer.spoil(
                    f"{self._counted} forwards before backward {self._backwards + 1}: whose "
                    f"micro-batch it is cannot be told; {_OWN}"
                )
            self._backwards += 1
            self._in_backward = True
            try:
                return backward(*args, **kwargs)
            finally:
                self._in_backward = False

        return traced_backward

    def _note_returned(self, module: nn.Module, args: Any, output: Any) -> None:
        self._returned = {(id(t.grad_fn), t.output_nr) for t in tensors_in(output)}

    def _divided_behind(self, loss: torch.Tensor) -> Callable[[], int] | None:
        returned = (id(loss.grad_fn), loss.output_nr) in self._returned
        return None if returned else self._divided_by_hooks

    def _divided_by_hooks(self) -> int:
        """The number that the engine's hooks divide gradients by. From 0.19.6 on it is 1 in
        engine.backward(), which divides the loss itself."""
        by_hooks = not self._in_backward or _version() < _DIVIDES_THE_LOSS
        return self._share if by_hooks else 1

    def _check_begin(self) -> None:
        engine = self._engine
        own = getattr(engine, "_is_gradient_accumulation_boundary", None) is not None
        managed = getattr(engine, "managed_gradient_accumulation", lambda: True)()
        done = int(engine.micro_steps) % self._share
        if managed and not own and done:
            raise TraceError(
                f"the traced step begins after {done} of {self._share} micro-batches; open "
                "tracer.step() around all of an optimizer step's"
            )

    def _check_end(self) -> None:
        if self._counted and self._counted != self._share:
            self._tracer.spoil(
                f"the traced step ends after {self._counted} of {self._share} micro-batches "
                "(gradient_accumulation_steps); open tracer.step() around all of an optimizer "
                "step's"
            )


def _version() -> tuple[int, ...]:
    version = str(getattr(sys.modules.get("deepspeed"), "__version__", ""))
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])
