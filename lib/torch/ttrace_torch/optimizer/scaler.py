"""Follows a GradScaler: the scale of gradients, and the steps that it skips."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable


class ScalerWatch:
    """The GradScaler of a job; None is a job without one."""

    def __init__(self, scaler: Any) -> None:
        self._scaler = scaler
        enabled = getattr(scaler, "is_enabled", None)
        self.active = scaler is not None and (enabled is None or bool(enabled()))

    def scale(self) -> float:
        """What a loss is multiplied by before its backward."""
        return float(self._scaler.get_scale()) if self.active else 1.0

    def unscaled(self, optimizers: Any) -> bool:
        """Whether the gradients of these optimizers have been divided by the scale."""
        if not self.active:
            return True
        several = optimizers if isinstance(optimizers, (list, tuple)) else [optimizers]
        states = getattr(self._scaler, "_per_optimizer_states", {})
        stages = [states[id(one)]["stage"].name for one in several if id(one) in states]
        return bool(stages) and all(stage != "READY" for stage in stages)

    @contextmanager
    def watching(self, updated: Callable[[], bool], skipped: Callable[[], None]) -> Iterator[None]:
        """Calls `skipped` for a step of the scaler after which `updated` says no."""
        if not self.active:
            yield
            return
        scaler = self._scaler
        own = vars(scaler).get("step")
        step = scaler.step

        def followed(*args: Any, **kwargs: Any) -> Any:
            result = step(*args, **kwargs)
            if not updated():
                skipped()
            return result

        scaler.step = followed
        try:
            yield
        finally:
            if own is None:
                vars(scaler).pop("step", None)
            else:
                scaler.step = own
