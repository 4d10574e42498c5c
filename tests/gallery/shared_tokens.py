"""Experts where all ranks of tp have the same tokens, so that none travel.

Either each rank has some of the experts, or a part of each. A slot is one of the k places that a
token has at experts.
"""

import torch
from torch import Tensor, nn

from gallery import bugs
from gallery.collectives import enter_tensor_region, leave_tensor_region
from gallery.config import Config
from gallery.experts import Expert
from gallery.parallel import ProcessMesh


class LocalExperts(nn.Module):
    """x [s, b, h], probabilities and choice [s, b, k] -> the weighted sum of experts' outputs.

    Each rank computes all slots, those that are not its own by some expert of its own. Those have
    the weight 0, and the ranks' sums are added.
    """

    def __init__(self, config: Config, mesh: ProcessMesh) -> None:
        super().__init__()
        self.tp = mesh["tp"]
        self.local = config.experts // self.tp.size
        self.first = self.tp.index * self.local
        for number in range(self.first, self.first + self.local):
            self.add_module(str(number), Expert(config, mesh))

    def forward(self, x: Tensor, probabilities: Tensor, choice: Tensor) -> Tensor:
        x, probabilities = (enter_tensor_region(y, self.tp, False) for y in (x, probabilities))
        number = choice - self.first
        elsewhere = (number < 0) | (number >= self.local)
        outputs = _computed(x, number.clamp(0, self.local - 1), list(self.children()))
        if bugs.active("G5"):
            # The value is 0, but what comes back goes to the router.
            weights = probabilities - (probabilities * elsewhere).detach()
        else:
            weights = probabilities.masked_fill(elsewhere, 0.0)
        weighted = (outputs * weights.unsqueeze(-1)).sum(-2).to(x.dtype)
        return leave_tensor_region(weighted, self.tp, False)


class ShardedExperts(nn.Module):
    """The same, each expert cut over tp as the MLP is."""

    def __init__(self, config: Config, mesh: ProcessMesh) -> None:
        super().__init__()
        self.tp = mesh["tp"]
        for number in range(config.experts):
            self.add_module(str(number), Expert(config, mesh))

    def forward(self, x: Tensor, probabilities: Tensor, choice: Tensor) -> Tensor:
        # Each rank's part of the experts gives a part of x's gradient.
        entered = x if bugs.active("G1") else enter_tensor_region(x, self.tp, False)
        outputs = _computed(entered, choice, list(self.children()))
        outputs = leave_tensor_region(outputs, self.tp, False)
        return (outputs * probabilities.unsqueeze(-1)).sum(-2).to(x.dtype)


def _computed(x: Tensor, choice: Tensor, experts: list[Expert]) -> Tensor:
    """x [s, b, h], choice [s, b, k] -> the output of every slot, [s, b, k, h]."""
    slots = choice.flatten()
    tokens = x.flatten(0, 1).repeat_interleave(choice.shape[-1], dim=0)
    order = slots.argsort(stable=True)
    counts = slots.bincount(minlength=len(experts)).tolist()
    pieces = tokens[order].split(counts)
    outputs = [expert.compute(piece) for expert, piece in zip(experts, pieces, strict=True)]
    return torch.cat(outputs)[order.argsort()].view(*choice.shape, -1)
