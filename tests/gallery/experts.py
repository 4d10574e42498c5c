"""The parts of a mixture of experts: a router, and experts that are cut over ep.

Every token goes to the experts that its router gives the largest probabilities; no expert is
ever full. The ranks of ep lie over dp, cp and tp, the innermost first, and each has tokens of its
own, so that tokens travel to their experts and back.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function

from gallery import bugs
from gallery.collectives import exchange, exchanged_counts
from gallery.config import Config
from gallery.parallel import ProcessMesh
from gallery.parameters import parameter


class Router(nn.Module):
    """[s, b, h] -> the chosen experts' probabilities, fp32 [s, b, k], and their numbers, int64."""

    def __init__(self, config: Config, mesh: ProcessMesh) -> None:
        super().__init__()
        self.top_k = config.top_k
        shape = (config.experts, config.hidden)
        flag = config.sp and not bugs.active("P6")
        self.weight = parameter(shape, config.dtype, mesh, sequence_parallel=flag)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        probabilities = F.linear(x.float(), self.weight.float()).softmax(dim=-1)
        return probabilities.topk(self.top_k, dim=-1)


class Expert(nn.Module):
    """The weights of one expert: fc1 -> gelu -> fc2. Whole on the ranks that have it, or with
    --expert-tp cut over tp, as those of an MLP without biases."""

    def __init__(self, config: Config, mesh: ProcessMesh) -> None:
        super().__init__()
        rows, columns = ({"tp": 0}, {"tp": 1}) if config.expert_tp else ({}, {})
        self.fc1 = parameter((config.ffn_hidden, config.hidden), config.dtype, mesh, rows)
        self.fc2 = parameter((config.hidden, config.ffn_hidden), config.dtype, mesh, columns)
        if not config.expert_tp:
            self.fc1.expert = self.fc2.expert = True

    # Not `forward`: how many tokens an expert gets depends on the layout, so what goes in and out
    # cannot be compared, and no hook must see it.
    def compute(self, tokens: Tensor) -> Tensor:
        return F.linear(F.gelu(F.linear(tokens, self.fc1)), self.fc2)


class Experts(nn.Module):
    """x [s, b, h], probabilities and choice [s, b, k] -> the weighted sum of experts' outputs.

    during_backward: entered while the experts' own backward runs, which is that of all tokens the
        rank's experts were sent.
    """

    def __init__(self, config: Config, mesh: ProcessMesh) -> None:
        super().__init__()
        self.ep = mesh.expert["ep"]
        self.count = config.experts
        self.local = config.experts // self.ep.size
        first = self.ep.index * self.local
        for number in range(first, first + self.local):
            self.add_module(str(number), Expert(config, mesh))
        self.during_backward: Callable[[], AbstractContextManager[Any]] = nullcontext

    def forward(self, x: Tensor, probabilities: Tensor, choice: Tensor) -> Tensor:
        top_k = choice.shape[-1]
        order = choice.flatten().argsort(stable=True)
        sent = x.flatten(0, 1)[order // top_k]
        counts = choice.flatten().bincount(minlength=self.count).view(self.ep.size, self.local)
        arriving = exchanged_counts(counts, self.ep)
        to, from_ = counts.sum(1).tolist(), arriving.sum(1).tolist()

        context = ExitStack()
        received = _in_backward(exchange(sent, self.ep, to, from_), context.close)
        computed = self._compute(received, arriving)
        computed = _in_backward(computed, lambda: context.enter_context(self.during_backward()))
        returned = exchange(computed, self.ep, from_, to)

        # Back in the order of the tokens, each with its k outputs side by side.
        outputs = returned[order.argsort()].view(*choice.shape, -1)
        return (outputs * probabilities.unsqueeze(-1)).sum(-2).to(x.dtype)

    def _compute(self, received: Tensor, arriving: Tensor) -> Tensor:
        """Rows as they came, by source and for each by expert; the same order goes back."""
        pieces = received.split(arriving.flatten().tolist())
        results: list[Tensor] = [torch.empty(0)] * len(pieces)
        for n, expert in enumerate(self.children()):
            mine = pieces[n :: self.local]
            output = expert.compute(torch.cat(mine))
            results[n :: self.local] = output.split([len(piece) for piece in mine])
        return torch.cat(results)


class _InBackward(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, action: Callable[[], object]) -> Tensor:
        ctx.action = action
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        ctx.action()
        return gradient, None


def _in_backward(x: Tensor, action: Callable[[], object]) -> Tensor:
    """x, and `action` happens when its gradient passes."""
    return _InBackward.apply(x, action)
