"""Linear layers as FP8 hardware computes them, emulated in fp32.

Emulated, as with Transformer Engine's current scaling: input and weight are multiplied by
448 / max|x|, the maximum taken over the whole tensor on all ranks that hold a part of it, and
rounded to E4M3; their product is exact but for fp32 sums, is scaled back and rounded once, to the
type of the input. The gradients of input and weight are those of the rounded values' product.
With delayed scaling output gradients are rounded too (`delayed_scaling.py`), else they are not.
Not emulated: delayed scaling of inputs and weights, weights kept in FP8 only.
"""

from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd import Function

from gallery import bugs
from gallery.collectives import all_reduce
from gallery.config import Config
from gallery.delayed_scaling import GradientScale
from gallery.parallel import Axis, ProcessMesh

E4M3 = torch.float8_e4m3fn
LARGEST = torch.finfo(E4M3).max


class Linear(nn.Module):
    """x [..., inputs] times weight [outputs, inputs], both rounded to FP8 first.

    cut_x, cut_weight: the axes over which the tensors are cut, whose ranks share one scale.
    gathered: x was put together from the sequence-parallel ranks' parts.
    """

    def __init__(
        self,
        cut_x: Iterable[Axis],
        cut_weight: Iterable[Axis],
        gathered: bool = False,
        gradient_scale: GradientScale | None = None,
    ) -> None:
        super().__init__()
        self.gathered, self.gradient_scale = gathered, gradient_scale
        self.input_scale, self.weight_scale = Scale(cut_x), Scale(cut_weight)

    def forward(self, x: Tensor, weight: Tensor) -> Tensor:
        x_scale, weight_scale = self.input_scale(x), self.weight_scale(weight)
        rounded_x, rounded_weight = _rounded(x, x_scale), _rounded(weight, weight_scale)
        if self.gathered and bugs.active("P7"):
            # The parts were cast, but what was gathered of them and goes into the product was not.
            rounded_x = _bytes_as_fp8(x) / x_scale
        if self.gradient_scale is not None:
            self.gradient_scale.forward()
        return _Linear.apply(x, weight, rounded_x, rounded_weight, self.gradient_scale)


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


def linear(
    config: Config, mesh: ProcessMesh, cut_x: Iterable[Axis], gathered: bool = False
) -> Linear | None:
    """What a linear layer multiplies with whose weight is cut over tp; None if not in FP8."""
    if config.precision != "fp8":
        return None
    scale = GradientScale(config, mesh) if config.delayed_scaling else None
    return Linear(cut_x, (mesh["tp"],), gathered, scale)


def finish_step(model: nn.Module) -> None:
    """Makes the scales of the next step's gradients of what this step's were."""
    for module in model.modules():
        if isinstance(module, Linear) and module.gradient_scale is not None:
            module.gradient_scale.finish_step()


def _rounded(x: Tensor, scale: Tensor) -> Tensor:
    """What FP8 makes of x, in fp32."""
    x, scale = x.detach(), scale.detach()
    return (x.float() * scale).clamp(-LARGEST, LARGEST).to(E4M3).float() / scale


def _bytes_as_fp8(x: Tensor) -> Tensor:
    """What a product in FP8 reads where a wider tensor begins, in fp32. Some bytes mean NaN."""
    return x.detach().contiguous().view(E4M3).flatten()[: x.numel()].view(x.shape).float()


class _Linear(Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        rounded_x: Tensor,
        rounded_weight: Tensor,
        gradient_scale: GradientScale | None,
    ) -> Tensor:
        ctx.gradient_scale = gradient_scale
        ctx.save_for_backward(rounded_x, rounded_weight)
        return (rounded_x @ rounded_weight.T).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        x, weight = ctx.saved_tensors
        wide = gradient.float()
        if ctx.gradient_scale is not None:
            wide = ctx.gradient_scale.rounded(wide)
        of_weight = wide.flatten(0, -2).T @ x.flatten(0, -2)
        return (wide @ weight).to(gradient.dtype), of_weight.to(gradient.dtype), None, None, None
