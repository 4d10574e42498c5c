"""Follows Megatron's schedules in a traced step: micro-batches, and final gradients."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Callable

from torch import nn

from ttrace_torch.base.microbatch import Batch, MicroBatches
from ttrace_torch.frameworks.framework import Listener, StepWatch
from ttrace_torch.frameworks.megatron_api import ParallelState, Schedules
from ttrace_torch.frameworks.megatron_names import MegatronNaming, inner


class ScheduleWatch:
    """Follows one traced step.

    The number of a micro-batch is data-parallel rank * micro-batches per rank + turn. Its backward
    has the same turn as its forward, but runs under 1F1B while a later forward's number is current:
    a parameter's n-th backward is that of the n-th micro-batch.
    """

    def __init__(self, tracer: Listener, parts: Sequence[nn.Module], state: ParallelState) -> None:
        self._tracer = tracer
        self._parts = parts
        self._state = state
        self._share: int | None = None
        self._turns: dict[int, int] = {}
        naming = MegatronNaming(state)
        self._experts = {
            name
            for part in parts
            for path, name in naming.of_parameters(part).items()
            if not getattr(part.get_parameter(path), "allreduce", True)
        }

    @contextmanager
    def watching(self) -> Iterator[StepWatch]:
        """Wraps the schedule's forward step and the model's reduction of gradients."""
        with ExitStack() as stack:
            schedules: Schedules | None = sys.modules.get(
                "megatron.core.pipeline_parallel.schedules"
            )
            if schedules is not None:
                forward = schedules.forward_step
                stack.callback(setattr, schedules, "forward_step", forward)
                schedules.forward_step = self._numbered(forward)
            for config in {id(c): c for c in (inner(p).config for p in self._parts)}.values():
                reduce = getattr(config, "finalize_model_grads_func", None)
                if reduce is not None:
                    stack.callback(setattr, config, "finalize_model_grads_func", reduce)
                    config.finalize_model_grads_func = self._final(reduce)
            yield StepWatch(self._backward_batch)

    def _numbered(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(forward)

        def forward_step(*args: Any, **kwargs: Any) -> Any:
            given = signature.bind(*args, **kwargs).arguments
            chunk = id(given["model"])
            self._share = int(given["num_microbatches"])
            turn = self._turns.get(chunk, 0)
            self._turns[chunk] = turn + 1
            with self._tracer.microbatch(self._first() + turn):
                return forward(*args, **kwargs)

        return forward_step

    def _final(self, reduce: Callable[..., Any]) -> Callable[..., Any]:
        def finalize_model_grads(*args: Any, **kwargs: Any) -> Any:
            done = reduce(*args, **kwargs)
            self._tracer.main_grads()
            return done

        return finalize_model_grads

    def _first(self) -> int:
        return int(self._state.get_data_parallel_rank()) * (self._share or 0)

    def _backward_batch(self, name: str, turn: int) -> Batch | None:
        if self._share is None:
            return None
        if name in self._experts:
            replicas = int(self._state.get_data_parallel_world_size())
            return MicroBatches(tuple(range(replicas * self._share)))
        return self._first() + turn
