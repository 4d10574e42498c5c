"""What Hugging Face's accelerate, and the Trainer above it, change about a job."""

from __future__ import annotations

from typing import Any


def deals_in_turn(optimizer: Any) -> bool:
    """Whether accelerate, which has prepared the optimizer, deals out the batches too: rank d of D
    has number n · D + d as its n-th."""
    return any(_is_prepared(one) for one in _listed(optimizer))


def inner_optimizer(given: Any) -> Any:
    """The optimizer that makes the steps: accelerate's wrapper hides it, also in a list."""
    if isinstance(given, (list, tuple)):
        inner = [inner_optimizer(one) for one in given]
        return inner[0] if len(inner) == 1 else inner
    if _is_prepared(given):
        return inner_optimizer(given.optimizer)
    return given


def scaler_of(given: Any) -> Any:
    """The GradScaler that accelerate has put into its optimizer; None without one."""
    scalers = [one.scaler for one in _listed(given) if _is_prepared(one)]
    return next((scaler for scaler in scalers if scaler is not None), None)


def _is_prepared(optimizer: Any) -> bool:
    return type(optimizer).__name__ == "AcceleratedOptimizer" and hasattr(optimizer, "optimizer")


def _listed(given: Any) -> list[Any]:
    return list(given) if isinstance(given, (list, tuple)) else [given]
