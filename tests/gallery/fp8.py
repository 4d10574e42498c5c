"""Linear layers as FP8 hardware computes them, emulated in fp32.

Emulated, as with Transformer Engine's current scaling: input and weight are multiplied by
448 / max|x|, the maximum taken over the whole tensor on all ranks that hold a part of it, and
rounded to E4M3; their product is exact but for fp32 sums, is scaled back and rounded once, to the
type of the input. The gradients of input and weight are those of the rounded values' product.
Not emulated: output gradients in E5M2, delayed scaling, weights kept in FP8 only.
"""

from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd import Function

from gallery import bugs
from gallery.collectives import all_reduce
from gallery.parallel import Axis

E4M3 = torch.float8_e4m3fn
LARGEST = torch.finfo(E4M3).max


class Linear(nn.Module):
    """x [..., inputs] times weight [outputs, inputs], both rounded to FP8 first.

    cut_x, cut_weight: the axes over which the tensors are cut, whose ranks share one scale.
    """

    def __init__(self, cut_x: Iterable[Axis], cut_weight: Iterable[Axis]) -> None:
        super().__init__()
        self.input_scale, self.weight_scale = Scale(cut_x), Scale(cut_weight)

    def forward(self, x: Tensor, weight: Tensor) -> Tensor:
        return _Linear.apply(x, weight, self.input_scale(x), self.weight_scale(weight))


class Scale(nn.Module):
    """A tensor that is cut over `axes` -> what it is multiplied by, fp32 [], equal on all ranks."""

    def __init__(self, axes: Iterable[Axis]) -> None:
        super().__init__()
        self.axes = [axis for axis in axes if not (axis.name == "tp" and bugs.active("P8"))]

    def forward(self, x: Tensor) -> Tensor:
        largest = x.detach().abs().amax().float()
        for axis in self.axes:
            largest = all_reduce(largest, axis, dist.ReduceOp.MAX)
        return torch.where(largest > 0, LARGEST / largest, 1.0)


def _rounded(x: Tensor, scale: Tensor) -> Tensor:
    """What FP8 makes of x, in fp32."""
    return (x.float() * scale).clamp(-LARGEST, LARGEST).to(E4M3).float() / scale


class _Linear(Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, x_scale: Tensor, weight_scale: Tensor
    ) -> Tensor:
        rounded_x, rounded_weight = _rounded(x, x_scale), _rounded(weight, weight_scale)
        ctx.save_for_backward(rounded_x, rounded_weight)
        return (rounded_x @ rounded_weight.T).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        x, weight = ctx.saved_tensors
        wide = gradient.float()
        of_weight = wide.flatten(0, -2).T @ x.flatten(0, -2)
        return (wide @ weight).to(gradient.dtype), of_weight.to(gradient.dtype), None, None
