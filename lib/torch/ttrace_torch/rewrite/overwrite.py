"""Overwrites tensors and gradients without cutting the autograd graph.

Both functions return a new tensor and never a view, so later operations may work in place.
"""

from __future__ import annotations

from typing import Any, Callable

import torch

# Nodes that a plan adds to the graph. They are no operations of the job.
NODES = ("_OverwrittenBackward", "_GradientOverwrittenBackward")


def overwritten(
    tensor: torch.Tensor, value: torch.Tensor, at_backward: Callable[[], None]
) -> torch.Tensor:
    """`value` in the place of `tensor`. The gradient of `value` goes to the graph of `tensor`.

    at_backward: called when that gradient passes.
    """
    if not (tensor.requires_grad and torch.is_grad_enabled()):
        return value
    # In a list: autograd would return a view of a tensor argument.
    result: torch.Tensor = _Overwritten.apply(tensor, [value], at_backward)  # type: ignore[no-untyped-call]
    return result


def with_gradient(
    tensor: torch.Tensor, overwrite: Callable[[torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """A copy of `tensor`. Its graph gets `overwrite(gradient of the copy)`.

    Each module that hands the tensor on gets its own copy, and so its own gradient.
    """
    result: torch.Tensor = _GradientOverwritten.apply(tensor, overwrite)  # type: ignore[no-untyped-call]
    return result


class _Overwritten(torch.autograd.Function):
    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, tensor: torch.Tensor, value: list[torch.Tensor], at_backward: Callable[[], None]
    ) -> torch.Tensor:
        ctx.at_backward = at_backward
        return value[0]

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:  # type: ignore[override]
        ctx.at_backward()
        return gradient, None, None


class _GradientOverwritten(torch.autograd.Function):
    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, tensor: torch.Tensor, overwrite: Callable[[torch.Tensor], torch.Tensor]
    ) -> torch.Tensor:
        ctx.overwrite = overwrite
        return tensor.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:  # type: ignore[override]
        return ctx.overwrite(gradient), None
