"""What Hugging Face's accelerate, and the Trainer above it, change about a job."""

from __future__ import annotations

import sys
from typing import Any


def deals_in_turn() -> bool:
    """Whether accelerate deals out the batches: rank d of D has number n · D + d as its n-th."""
    state: Any = getattr(sys.modules.get("accelerate.state"), "AcceleratorState", None)
    return bool(getattr(state, "_shared_state", None))


def inner_optimizer(given: Any) -> Any:
    """The optimizer that makes the steps: accelerate's wrapper hides it, also in a list."""
    if isinstance(given, (list, tuple)):
        inner = [inner_optimizer(one) for one in given]
        return inner[0] if len(inner) == 1 else inner
    if type(given).__name__ == "AcceleratedOptimizer" and hasattr(given, "optimizer"):
        return inner_optimizer(given.optimizer)
    return given


def scaler_of(given: Any) -> Any:
    """The GradScaler that accelerate has put into its optimizer; None without one."""
    several = given if isinstance(given, (list, tuple)) else [given]
    return next((s for s in (getattr(one, "scaler", None) for one in several) if s), None)
