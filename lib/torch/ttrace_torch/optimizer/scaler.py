"""Follows a GradScaler: the scale of gradients, and the steps that it skips."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable

import torch

_Function = Callable[..., Any]


class ScalerWatch:
    """The GradScaler of a job; None is a job without one.

    stepping: whether a step of the scaler is running: it divides gradients by its scale that are
        not divided yet.
    """

    def __init__(self, scaler: Any) -> None:
        self._scaler = scaler
        self.active = _does_something(scaler)
        self.stepping = False

    def state(self) -> torch.Tensor | None:
        """The tensor that holds the scale; None before its first use."""
        found = getattr(self._scaler, "_scale", None) if self.active else None
        return found if isinstance(found, torch.Tensor) else None

    def scale(self) -> float:
        """The factor of a loss before its backward."""
        return float(self._scaler.get_scale()) if self.active else 1.0

    def unscaled(self, optimizers: Any) -> bool:
        """Whether the gradients of these optimizers have been divided by the scale."""
        if not self.active:
            return True
        states = getattr(self._scaler, "_per_optimizer_states", {})
        found = [states[id(one)] for one in _listed(optimizers) if id(one) in states]
        return bool(found) and all(state["stage"].name != "READY" for state in found)

    @contextmanager
    def watching(
        self,
        optimizers: Any,
        updated: Callable[[], int],
        met: Callable[[], None],
        skipped: Callable[[Any], None],
    ) -> Iterator[None]:
        """Follows the scaler inside.

        updated: how many optimizers have made their step.
        met: called when a scaler that nobody has named unscales the gradients of `optimizers` or
            makes their step, before it does; it is the scaler of the job from then on.
        skipped: called after a step of the scaler that made none of the optimizer's, with the
            optimizer.
        """

        def follow(step: _Function, optimizer: Any) -> Any:
            self.stepping, before = True, updated()
            try:
                result = step()
            finally:
                self.stepping = False
            if updated() == before:
                skipped(optimizer)
            return result

        if self.active:
            known_step = self._scaler.step

            def step_of_known(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
                return follow(lambda: known_step(optimizer, *args, **kwargs), optimizer)

            with _replaced(self._scaler, {"step": step_of_known}):
                yield
            return

        any_scaler = _class_of_scalers()
        own_step, own_unscale = any_scaler.step, any_scaler.unscale_

        def meet(scaler: Any, optimizer: Any) -> bool:
            if not self.active and _does_something(scaler) and _is_of(optimizer, optimizers):
                self._scaler, self.active = scaler, True
                met()
            return self.active and scaler is self._scaler

        def step(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if meet(scaler, optimizer):
                return follow(lambda: own_step(scaler, optimizer, *args, **kwargs), optimizer)
            return own_step(scaler, optimizer, *args, **kwargs)

        def unscale(scaler: Any, optimizer: Any) -> Any:
            meet(scaler, optimizer)
            return own_unscale(scaler, optimizer)

        with _replaced(any_scaler, {"step": step, "unscale_": unscale}):
            yield


def _does_something(scaler: Any) -> bool:
    enabled = getattr(scaler, "is_enabled", None)
    return scaler is not None and (enabled is None or bool(enabled()))


def _listed(optimizers: Any) -> list[Any]:
    return list(optimizers) if isinstance(optimizers, (list, tuple)) else [optimizers]


def _is_of(optimizer: Any, optimizers: Any) -> bool:
    """Whether `optimizer` is one of them, or is wrapped by one of them."""
    return any(optimizer in (one, getattr(one, "optimizer", None)) for one in _listed(optimizers))


def _class_of_scalers() -> Any:
    """The class that all GradScalers of torch derive from; torch 2.2 and older have that of CUDA
    alone."""
    return getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler


@contextmanager
def _replaced(owner: Any, functions: dict[str, _Function]) -> Iterator[None]:
    """Gives an object or class other functions inside."""
    before = {name: vars(owner).get(name) for name in functions}
    for name, function in functions.items():
        setattr(owner, name, function)
    try:
        yield
    finally:
        for name, own in before.items():
            if own is None:
                delattr(owner, name)
            else:
                setattr(owner, name, own)
