"""Tensors and gradients that are overwritten in the graph: autograd goes on as if they were not.

Both hand on a new tensor and never a view, so what comes after may still be in place.
"""

from __future__ import annotations

from typing import Any, Callable

import torch

# Nodes that rewriting puts into the graph; no operations of the job.
NODES = ("_OverwrittenBackward", "_GradientOverwrittenBackward")


def overwritten(
    tensor: torch.Tensor, value: torch.Tensor, at_backward: Callable[[], None]
) -> torch.Tensor:
    """`value` in the place of `tensor`, whose graph gets the gradient that comes to `value`.

    at_backward: called when that gradient passes.
    """
    if not (tensor.requires_grad and torch.is_grad_enabled()):
        return value
    # In a list, for autograd would hand on a view of a tensor that it is given.
    result: torch.Tensor = _Overwritten.apply(tensor, [value], at_backward)  # type: ignore[no-untyped-call]
    return result


def with_gradient(
    tensor: torch.Tensor, overwrite: Callable[[torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """A copy of `tensor`, to whose graph goes what `overwrite` makes of the copy's gradient.

    A tensor of its own for each module that hands it on, so each can have its own gradient.
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
