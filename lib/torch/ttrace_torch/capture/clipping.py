"""Follows how a job clips its gradients by torch's own functions, while a step is traced.

`clip_grad_norm_` may have been imported before anything is traced, so the functions that it calls
are followed instead. The gradients are recorded before they are clipped. The norm is not: under
FSDP2 every rank has a part of it, and a tensor that one run alone records is a difference. Readers
take that of the main gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any

import torch

from ttrace_torch.capture.replaced_functions import Function, replaced_functions

_MODULE = torch.nn.utils.clip_grad


class Clipping:
    """How often, and to which limit, the gradients of a step were clipped.

    parameters: those of the job, by name.
    before: called before gradients are clipped.
    """

    def __init__(self, parameters: Mapping[str, torch.Tensor], before: Callable[[], None]) -> None:
        self._parameters = parameters
        self._before = before
        self._norm_type: Any = 2.0
        self._calls = 0
        self._limit = float("inf")
        self._gradients = 0  # how many the last norm was taken of
        # The parameters whose gradients, and no others, torch's function made the norm of; None if
        # that is not known.
        self.by_norm_of: frozenset[str] | None = None

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Inside, torch's functions tell what they clip."""
        with ExitStack() as stack:
            for owner, name, around in (
                (_MODULE, "_get_total_norm", self._measuring),
                (_MODULE, "_clip_grads_with_norm_", self._clipped),
                (_MODULE, "clip_grad_value_", self._cut),
                (torch.nn.utils, "clip_grad_value_", self._cut),
            ):
                if hasattr(owner, name):
                    stack.enter_context(replaced_functions([(owner, (name,))], around))
            yield

    def limit(self) -> float | None:
        """The limit of the L2 norm of all gradients; None if they were not clipped by it, or were
        clipped in several ways."""
        return self._limit if self._calls == 1 and self._limit < float("inf") else None

    @property
    def seen(self) -> bool:
        """Whether gradients were clipped, in whatever way."""
        return self._calls > 0

    def _measuring(self, measure: Function) -> Function:
        @wraps(measure)
        def measured(tensors: Any, norm_type: Any = 2.0, *args: Any, **kwargs: Any) -> Any:
            self._norm_type = norm_type
            tensors = _listed(tensors)
            self._gradients = len(tensors)
            return measure(tensors, norm_type, *args, **kwargs)

        return measured

    def _clipped(self, clip: Function) -> Function:
        @wraps(clip)
        def clipped(parameters: Any, max_norm: Any, total_norm: Any, *args: Any, **kw: Any) -> Any:
            if not torch.compiler.is_compiling():
                parameters = _listed(parameters)
                if self._takes(parameters):
                    whole = self._covers(parameters) and float(self._norm_type) == 2
                    self.by_norm_of = self._measured() if whole else None
                    self._limit = float(max_norm) if whole else float("inf")
            return clip(parameters, max_norm, total_norm, *args, **kw)

        return clipped

    def _cut(self, cut: Function) -> Function:
        @wraps(cut)
        def cut_down(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            if not torch.compiler.is_compiling():
                parameters = _listed(parameters)
                if self._takes(parameters):
                    self._limit = float("inf")
            return cut(parameters, *args, **kwargs)

        return cut_down

    def _takes(self, parameters: Iterable[torch.Tensor]) -> bool:
        """Whether some of these belong to the job; their gradients are then recorded."""
        own = {id(parameter) for parameter in self._parameters.values()}
        if not any(id(parameter) in own for parameter in parameters):
            return False
        self._before()
        self._calls += 1
        return True

    def _measured(self) -> frozenset[str] | None:
        own = {name: id(one) for name, one in self._parameters.items() if one.grad is not None}
        return frozenset(own) if self._gradients == len(set(own.values())) else None

    def _covers(self, parameters: Iterable[torch.Tensor]) -> bool:
        clipped = {id(parameter) for parameter in parameters}
        return all(
            id(parameter) in clipped
            for parameter in self._parameters.values()
            if parameter.grad is not None
        )


def _listed(parameters: Any) -> Any:
    """`parameters`, which may be a single one or a generator, in a form that can be read twice."""
    return [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
