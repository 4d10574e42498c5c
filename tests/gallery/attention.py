"""Self-attention, its heads cut over tp."""

import math

import torch
from torch import Tensor, nn

from gallery import bugs
from gallery.collectives import enter_tensor_region
from gallery.config import Config
from gallery.layers import ColumnParallelLinear, Linear, RowParallelLinear
from gallery.parallel import ProcessMesh
from gallery.ring import ring_attention


class CoreAttention(nn.Module):
    """Causal attention of this rank's heads: q, k, v [s, b, n, d] -> [s, b, n * d].

    The softmax is computed in fp32, as the frameworks do. With context parallelism s is this
    rank's part of the sequence.
    """

    def __init__(self, mesh: ProcessMesh) -> None:
        super().__init__()
        self.cp = mesh["cp"]

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        s, b, n, d = q.shape
        q, k, v = (x.permute(1, 2, 0, 3) for x in (q, k, v))  # [b, n, s, d]
        context = _attention(q, k, v) if self.cp.size == 1 else ring_attention(q, k, v, self.cp)
        return context.permute(2, 0, 1, 3).reshape(s, b, n * d)


def _attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    s, d = q.shape[2:]
    scores = q @ k.transpose(2, 3) / math.sqrt(d)
    future = torch.ones(s, s, dtype=torch.bool).triu(diagonal=1)
    scores = scores.float().masked_fill(future, -math.inf)
    return scores.softmax(dim=-1).to(v.dtype) @ v


class Attention(nn.Module):
    """qkv -> core -> proj, from hidden layout to hidden layout."""

    def __init__(self, config: Config, mesh: ProcessMesh) -> None:
        super().__init__()
        self.head_dim = config.hidden // config.heads
        self.qkv = ColumnParallelLinear(config, mesh, config.hidden, 3 * config.hidden)
        self.core = CoreAttention(mesh)
        self.proj = RowParallelLinear(config, mesh, config.hidden, config.hidden)

    def forward(self, x: Tensor) -> Tensor:
        # Rows of the qkv weight are [head][q, k, v][head_dim], so whole heads fall to each rank.
        qkv = self.qkv(x).unflatten(-1, (-1, 3, self.head_dim))
        q, k, v = qkv.unbind(dim=-2)
        return self.proj(self.core(q, k, v))


class MultiQueryAttention(nn.Module):
    """q and kv -> core -> proj, from hidden layout to hidden layout.

    All heads attend to one head of keys and values, which every rank computes whole.
    """

    def __init__(self, config: Config, mesh: ProcessMesh) -> None:
        super().__init__()
        self.tp = mesh["tp"]
        self.head_dim = config.hidden // config.heads
        self.q = ColumnParallelLinear(config, mesh, config.hidden, config.hidden)
        self.kv = Linear(config, mesh, config.hidden, 2 * self.head_dim)
        self.core = CoreAttention(mesh)
        self.proj = RowParallelLinear(config, mesh, config.hidden, config.hidden)

    def forward(self, x: Tensor) -> Tensor:
        q = self.q(x).unflatten(-1, (-1, self.head_dim))
        kv = self.kv(x)
        # Each rank's heads give a part of the gradient of keys and values.
        if not bugs.active("G3"):
            kv = enter_tensor_region(kv, self.tp, False)
        k, v = (part.unsqueeze(2).expand_as(q) for part in kv.chunk(2, dim=-1))
        return self.proj(self.core(q, k, v))
