"""Attention under context parallelism that runs on the CPU: keys and values of all ranks.

Megatron-core leaves context parallelism to Transformer Engine. Here as there a rank has the chunks
i and 2n - 1 - i of the sequence in 2n.
"""

from __future__ import annotations

from copy import copy

import torch
from megatron.core import parallel_state
from megatron.core.transformer.dot_product_attention import DotProductAttention


def zigzag(tensor, dim):
    """This context-parallel rank's part."""
    ranks = parallel_state.get_context_parallel_world_size()
    rank = parallel_state.get_context_parallel_rank()
    chunks = tensor.chunk(2 * ranks, dim)
    return torch.cat([chunks[rank], chunks[2 * ranks - 1 - rank]], dim)


class _Gathered(torch.autograd.Function):
    """The whole sequence, in its order, from the parts along dimension 0."""

    @staticmethod
    def forward(ctx, part):
        ranks = parallel_state.get_context_parallel_world_size()
        parts = [torch.empty_like(part) for _ in range(ranks)]
        group = parallel_state.get_context_parallel_group()
        torch.distributed.all_gather(parts, part.contiguous(), group=group)
        halves = [one.chunk(2) for one in parts]
        fronts, backs = [front for front, _ in halves], [back for _, back in reversed(halves)]
        return torch.cat([*fronts, *backs])

    @staticmethod
    def backward(ctx, whole):
        whole = whole.clone()
        torch.distributed.all_reduce(whole, group=parallel_state.get_context_parallel_group())
        return zigzag(whole, 0)


class ContextAttention(DotProductAttention):
    """Megatron's own attention, of this rank's queries with all keys.

    Latent attention says how wide a head's keys and values are, which Megatron's own finds out.
    """

    def __init__(self, config, *args, k_channels=None, v_channels=None, **kwargs):
        alone = copy(config)
        alone.context_parallel_size = 1
        super().__init__(alone, *args, **kwargs)

    def forward(self, query, key, value, attention_mask, *args, **kwargs):
        whole = _Gathered.apply(key), _Gathered.apply(value)
        return super().forward(query, *whole, attention_mask, *args, **kwargs)
