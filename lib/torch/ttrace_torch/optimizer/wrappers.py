"""Optimizers of torch around another one."""

from __future__ import annotations

from typing import Any


def shares_out_state(optimizer: Any) -> bool:
    """Whether each rank has the state of some parameters alone, as ZeroRedundancyOptimizer deals
    them out."""
    return type(optimizer).__name__ == "ZeroRedundancyOptimizer"


def without_averaging(optimizer: Any) -> Any:
    """The optimizer inside one that averages parameters and has no hooks of its own, such as
    PostLocalSGDOptimizer; other optimizers as they are."""
    unfinished = not hasattr(optimizer, "_optimizer_step_pre_hooks")
    inner = getattr(optimizer, "optim", None)
    if unfinished and hasattr(inner, "_optimizer_step_pre_hooks"):
        return inner
    return optimizer
