"""Context parallelism: tokens in zigzag order, and attention with keys and values in a ring.

The sequence is cut into 2n chunks for n ranks; rank i has chunks i and 2n-1-i, so that under a
causal mask all have as much to do.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function

from gallery import bugs
from gallery.parallel import Axis


def zigzag(x: Tensor, cp: Axis, index: int | None = None) -> Tensor:
    """The part of dimension 0 that coordinate `index` has, by default this rank."""
    if cp.size == 1:
        return x
    index = cp.index if index is None else index
    chunks = x.chunk(2 * cp.size)
    return torch.cat([chunks[index], chunks[-1 - index]])


def ring_attention(q: Tensor, k: Tensor, v: Tensor, cp: Axis) -> Tensor:
    """Causal attention over the whole sequence: q, k, v [b, n, s/cp, d] -> the same shape."""
    return _RingAttention.apply(q, k, v, cp)


class _RingAttention(Function):
    """Keys and values go round; each rank sees every rank's once, its own first.

    The softmax is online: what has been summed is scaled down when a larger logarithm of the sum
    of exponentials is known. Sums are fp32, factors of products in the type of the input.
    """

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, cp: Axis) -> Tensor:
        out = torch.zeros_like(q, dtype=torch.float32)
        log_sum = torch.full_like(out[..., :1], -math.inf)
        visiting = [k, v]
        for step in range(cp.size):
            scores = _scores(q, visiting[0], cp, step)
            longer = torch.logaddexp(log_sum, scores.logsumexp(-1, keepdim=True))
            weights = (scores - longer).exp().to(v.dtype)
            out = out * (log_sum - longer).exp() + (weights @ visiting[1]).float()
            log_sum = longer
            if step < cp.size - 1:
                visiting = _pass_on(visiting, cp)
        out = out.to(q.dtype)
        ctx.save_for_backward(q, k, v, out, log_sum)
        ctx.cp = cp
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        q, k, v, out, log_sum = ctx.saved_tensors
        cp, scale = ctx.cp, 1 / math.sqrt(q.shape[-1])
        along = (gradient.float() * out.float()).sum(-1, keepdim=True)
        of_q = torch.zeros_like(q, dtype=torch.float32)
        # The gradients of keys and values go round with them, and come home with the last step.
        visiting = [k, v, torch.zeros_like(of_q), torch.zeros_like(of_q)]
        for step in range(cp.size):
            k, v, of_k, of_v = visiting
            weights = (_scores(q, k, cp, step) - log_sum).exp()
            of_weights = (gradient @ v.transpose(2, 3)).float()
            of_scores = (weights * (of_weights - along) * scale).to(q.dtype)
            if not (bugs.active("P13") and step == cp.size - 1):
                of_q += (of_scores @ k).float()
                of_k = of_k + (of_scores.transpose(2, 3) @ q).float()
                of_v = of_v + (weights.to(q.dtype).transpose(2, 3) @ gradient).float()
            visiting = _pass_on([k, v, of_k, of_v], cp)
        return of_q.to(q.dtype), visiting[2].to(q.dtype), visiting[3].to(q.dtype), None


def _scores(q: Tensor, k: Tensor, cp: Axis, step: int) -> Tensor:
    """Scaled products of this rank's queries with the keys that visit at `step`, future masked."""
    positions = torch.arange(q.shape[2] * cp.size)
    mine = zigzag(positions, cp)
    theirs = zigzag(positions, cp, (cp.index - step) % cp.size)
    scores = (q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])).float()
    return scores.masked_fill(theirs > mine.unsqueeze(1), -math.inf)


def _pass_on(tensors: Sequence[Tensor], cp: Axis) -> list[Tensor]:
    """Gives the tensors to the next rank of the ring; returns those of the one before."""
    onward, back = cp.ranks[(cp.index + 1) % cp.size], cp.ranks[cp.index - 1]
    sent = [x.contiguous() for x in tensors]
    sending = [dist.isend(x, onward) for x in sent]
    received = [torch.empty_like(x) for x in sent]
    for x in received:
        dist.recv(x, back)
    for work in sending:
        work.wait()
    return received
