"""Optimizers that torch lacks, or that it cannot step with sharded parameters.

Each keeps its momentum in the parameter's layout. A matrix as a whole is needed by Muon and
Adafactor: with the fault `by_shard` they take the rank's own shard for it.
"""

from __future__ import annotations

import torch
from torch.distributed.tensor import DTensor, distribute_tensor


class _Rule(torch.optim.Optimizer):
    def __init__(self, params, by_shard=False, momentum_first=False, **settings):
        super().__init__(params, settings)
        self._by_shard = by_shard
        self._momentum_first = momentum_first

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                self._update(parameter, parameter.grad, group, self.state[parameter])

    def _whole(self, tensor):
        if not isinstance(tensor, DTensor):
            return tensor
        return tensor.to_local() if self._by_shard else tensor.full_tensor()

    def _cut(self, value, like):
        """The result for a whole matrix, or for a shard, in the parameter's layout."""
        if not isinstance(like, DTensor):
            return value
        mesh, placements = like.device_mesh, like.placements
        if self._by_shard:
            shape, stride = like.shape, like.stride()
            return DTensor.from_local(value, mesh, placements, shape=shape, stride=stride)
        return distribute_tensor(value, mesh, placements, src_data_rank=None)


class Muon(_Rule):
    def _update(self, parameter, gradient, group, state):
        if not state:
            state["momentum_buffer"] = torch.zeros_like(parameter)
        momentum = state["momentum_buffer"].mul_(group["momentum"]).add_(gradient)
        ahead = self._whole(gradient.add(momentum, alpha=group["momentum"]))
        step = self._cut(_orthogonal(ahead), parameter)
        parameter.mul_(1 - group["lr"] * group["weight_decay"]).sub_(step, alpha=group["lr"])


def _orthogonal(matrix):
    flip = matrix.shape[0] > matrix.shape[1]
    x = (matrix.T if flip else matrix).float()
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
    return x.T if flip else x


class Lion(_Rule):
    def _update(self, parameter, gradient, group, state):
        if not state:
            state["exp_avg"] = torch.zeros_like(parameter)
        average, (one, other) = state["exp_avg"], group["betas"]
        if self._momentum_first:
            average.lerp_(gradient, 1 - other)
        step = average.lerp(gradient, 1 - one).sign()
        parameter.mul_(1 - group["lr"] * group["weight_decay"]).sub_(step, alpha=group["lr"])
        if not self._momentum_first:
            average.lerp_(gradient, 1 - other)


class Adafactor(_Rule):
    """With factors of the squares of matrices, whose updates are clipped, and no momentum."""

    def _update(self, parameter, gradient, group, state):
        is_matrix = parameter.dim() == 2
        held = self._whole(gradient) if is_matrix else gradient
        kept = []
        for name, dims in [("row", (1,)), ("col", (0,))] if is_matrix else [("variance", ())]:
            square = held.square() + 1e-30
            new = square.mean(dims, keepdim=True) if dims else square
            if name not in state:
                state[name] = torch.zeros_like(new)
            kept.append(state[name].lerp_(new, 1 - group["beta"]))
        estimate = kept[0] * kept[1] / kept[0].mean() if is_matrix else kept[0]
        step = held * estimate.clamp(min=1e-30).rsqrt()
        if is_matrix:
            step = self._cut(step / step.square().mean().sqrt().clamp(min=1.0), parameter)
        parameter.mul_(1 - group["lr"] * group["weight_decay"]).sub_(step, alpha=group["lr"])
