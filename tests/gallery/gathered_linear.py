"""A column-parallel product that keeps its rank's part of the input only, as Megatron's does."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

from gallery import bugs
from gallery.collectives import gather_parts, reduce_scatter_parts
from gallery.parallel import Axis


def gathered_linear(x: Tensor, weight: Tensor, bias: Tensor, tp: Axis) -> Tensor:
    """x [s/tp, b, inputs], gathered, times weight [outputs/tp, inputs] -> [s, b, outputs/tp].

    The backward gathers x again, for the gradient of the weight.
    """
    return _GatheredLinear.apply(x, weight, bias, tp)


class _GatheredLinear(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, tp: Axis) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.tp = tp
        return F.linear(gather_parts(x, tp), weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        x, weight = ctx.saved_tensors
        parts = list(gather_parts(x, ctx.tp).chunk(ctx.tp.size))
        if bugs.active("P11"):
            # They arrive while other things are computed, and two are put in each other's place.
            parts[0], parts[1] = parts[1], parts[0]
        flat = gradient.flatten(0, 1)
        of_weight = flat.T @ torch.cat(parts).flatten(0, 1)
        of_x = reduce_scatter_parts(gradient @ weight, ctx.tp)
        return of_x, of_weight, flat.sum(0), None
