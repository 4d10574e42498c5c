"""Optimizers around other ones: which one makes the steps, and what the wrapper changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol


@dataclass(frozen=True)
class Unwrapped:
    """What the user gave as an optimizer.

    optimizer: the one that makes the steps, or a list of several; None without one.
    scaler: the GradScaler that a wrapper holds.
    deals_in_turn: whether the library of the wrapper deals out the batches too: rank d of D has
        number n · D + d as its n-th.
    """

    optimizer: Any = None
    scaler: Any = None
    deals_in_turn: bool = False


class OptimizerWrapper(Protocol):
    """One kind of wrapper."""

    def wraps(self, optimizer: Any) -> bool:
        """Whether `optimizer` is one."""

    def unwrapped(self, optimizer: Any) -> Unwrapped:
        """What is inside: at most one further optimizer, which may be a wrapper too."""


_registered: list[OptimizerWrapper] = []


def register_optimizer_wrapper(wrapper: OptimizerWrapper) -> OptimizerWrapper:
    """Makes `unwrapped` know one more kind of wrapper."""
    _registered.append(wrapper)
    return wrapper


def unwrapped(given: Any) -> Unwrapped:
    """`given`: an optimizer, a list of several, or None. A list of one stands for that one."""
    if not isinstance(given, (list, tuple)):
        return _unwrapped(given)
    found = [_unwrapped(one) for one in given]
    optimizers = [one.optimizer for one in found]
    return Unwrapped(
        optimizers[0] if len(optimizers) == 1 else optimizers,
        next((one.scaler for one in found if one.scaler is not None), None),
        any(one.deals_in_turn for one in found),
    )


def _unwrapped(given: Any) -> Unwrapped:
    whole = Unwrapped(given)
    for inside in _layers(given):
        whole = replace(
            inside,
            scaler=inside.scaler if whole.scaler is None else whole.scaler,
            deals_in_turn=whole.deals_in_turn or inside.deals_in_turn,
        )
    return whole


def _layers(optimizer: Any) -> Iterator[Unwrapped]:
    """From the outermost wrapper inwards."""
    for wrapper in _registered:
        if wrapper.wraps(optimizer):
            inside = wrapper.unwrapped(optimizer)
            yield inside
            if inside.optimizer is not optimizer:
                yield from _layers(inside.optimizer)
            return


class _Accelerated:
    """Hugging Face's accelerate, and the Trainer above it."""

    def wraps(self, optimizer: Any) -> bool:
        return type(optimizer).__name__ == "AcceleratedOptimizer" and hasattr(
            optimizer, "optimizer"
        )

    def unwrapped(self, optimizer: Any) -> Unwrapped:
        return Unwrapped(optimizer.optimizer, optimizer.scaler, deals_in_turn=True)


class _Averaging:
    """Optimizers of torch that average parameters and have no hooks of their own, such as
    PostLocalSGDOptimizer."""

    def wraps(self, optimizer: Any) -> bool:
        unfinished = not hasattr(optimizer, "_optimizer_step_pre_hooks")
        return unfinished and hasattr(
            getattr(optimizer, "optim", None), "_optimizer_step_pre_hooks"
        )

    def unwrapped(self, optimizer: Any) -> Unwrapped:
        return Unwrapped(optimizer.optim)


class _ZeroRedundancy:
    """torch's ZeroRedundancyOptimizer. It has the hooks, all parameters and the settings, and
    gives an optimizer inside it this rank's share of the parameters."""

    def wraps(self, optimizer: Any) -> bool:
        return type(optimizer).__name__ == "ZeroRedundancyOptimizer"

    def unwrapped(self, optimizer: Any) -> Unwrapped:
        return Unwrapped(optimizer)


def optimizer_of_share(optimizer: Any) -> Any:
    """The one that updates this rank's share of the parameters, with as many groups: that inside a
    ZeroRedundancyOptimizer, else `optimizer`. Its settings may be older: a step copies them."""
    if not _ZERO.wraps(optimizer):
        return optimizer
    inside = getattr(optimizer, "optim", None)
    groups = getattr(inside, "param_groups", ())
    return inside if len(groups) == len(optimizer.param_groups) else optimizer


_ZERO = _ZeroRedundancy()
for _wrapper in (_Accelerated(), _Averaging(), _ZERO):
    register_optimizer_wrapper(_wrapper)
