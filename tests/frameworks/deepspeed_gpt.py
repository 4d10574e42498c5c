"""A small GPT in plain PyTorch, its weights and its data: the same wherever it is trained."""

from __future__ import annotations

import zlib

import torch
from torch import nn
from torch.nn import functional

SEQUENCE, VOCABULARY, HIDDEN, LAYERS, HEADS = 8, 61, 20, 2, 4
MICRO_BATCH_SIZE, GLOBAL_MICRO_BATCHES, STEPS = 2, 4, 2
# The key's bias has a gradient of rounding errors alone, of which Adam's usual epsilon would make
# whole steps.
ADAMW = {"lr": 0.01, "weight_decay": 0.1, "eps": 1e-3}
CLIP = 0.5


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1 = nn.LayerNorm(HIDDEN)
        self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN)
        self.proj = nn.Linear(HIDDEN, HIDDEN)
        self.norm_2 = nn.LayerNorm(HIDDEN)
        self.up = nn.Linear(HIDDEN, 4 * HIDDEN + 1)
        self.down = nn.Linear(4 * HIDDEN + 1, HIDDEN, bias=False)

    def forward(self, x):
        batch, length, _ = x.shape
        heads = self.qkv(self.norm_1(x)).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.proj(mixed.transpose(1, 2).reshape(batch, length, HIDDEN))
        return x + self.down(functional.gelu(self.up(self.norm_2(x))))


class SmallGpt(nn.Module):
    """`tied`: whether the head is the embedding's weight."""

    def __init__(self, tied=True):
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, HIDDEN)
        self.positions = nn.Embedding(SEQUENCE, HIDDEN)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(HIDDEN)
        self.head = nn.Linear(HIDDEN, VOCABULARY, bias=False)
        if tied:
            self.head.weight = self.words.weight
        for name, parameter in self.named_parameters():
            generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
            with torch.no_grad():
                parameter.normal_(0.0, 0.2, generator=generator)
                if "norm" in name and name.endswith("weight"):
                    parameter.add_(1.0)

    def forward(self, ids, labels):
        x = self.words(ids) + self.positions(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x)).float()
        return functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def get_batch(step, number):
    generator = torch.Generator().manual_seed(1000 * step + number)
    size = (MICRO_BATCH_SIZE, SEQUENCE + 1)
    data = torch.randint(VOCABULARY, size, generator=generator)
    return data[:, :-1].contiguous(), data[:, 1:].contiguous()


def parameter_groups(model):
    """Weight decay for matrices alone, as usual."""
    parameters = list(model.parameters())
    return [
        {"params": [p for p in parameters if p.dim() > 1]},
        {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0},
    ]
