"""A small GPT and its data, for the scripts that train it in every way PyTorch itself offers."""

from __future__ import annotations

import zlib

import torch
from torch import nn

SEQUENCE, VOCABULARY, HIDDEN, HEADS, LAYERS = 8, 64, 32, 4, 4
MICRO_BATCH_SIZE, GLOBAL_MICRO_BATCHES, STEPS = 2, 4, 2


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.wq = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.wk = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.wv = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.wo = nn.Linear(HIDDEN, HIDDEN, bias=False)

    def forward(self, x):
        q, k, v = (
            # As many heads as this rank has columns for.
            w(x).unflatten(-1, (-1, HIDDEN // HEADS)).transpose(1, 2)
            for w in (self.wq, self.wk, self.wv)
        )
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = nn.Linear(HIDDEN, 4 * HIDDEN)
        self.act = nn.GELU()
        self.w2 = nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x):
        return self.w2(self.act(self.w1(x)))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm = nn.LayerNorm(HIDDEN)
        self.attention = Attention()
        self.ffn_norm = nn.LayerNorm(HIDDEN)
        self.feed_forward = FeedForward()

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.ffn_norm(x))


class GPT(nn.Module):
    """The layers stand under their numbers, so that a stage of them keeps their names."""

    def __init__(self, layers):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, HIDDEN)
        self.layers = nn.ModuleDict({str(number): Block() for number in range(layers)})
        self.norm = nn.LayerNorm(HIDDEN)
        self.output = nn.Linear(HIDDEN, VOCABULARY, bias=False)

    def forward(self, x):
        x = x if self.embedding is None else self.embedding(x)
        for layer in self.layers.values():
            x = layer(x)
        x = x if self.norm is None else self.norm(x)
        return x if self.output is None else self.output(x)


def small_gpt(layers=LAYERS):
    """The model with the same weights wherever it is made."""
    model = GPT(layers)
    for name, parameter in model.named_parameters():
        generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
        with torch.no_grad():
            parameter.copy_(0.2 * torch.randn(parameter.shape, generator=generator))
            if "norm" in name and name.endswith("weight"):
                parameter.add_(1.0)
    return model


def get_batch(step, number):
    """Token ids and labels of a global micro-batch."""
    generator = torch.Generator().manual_seed(1000 * step + number)
    size = (MICRO_BATCH_SIZE, SEQUENCE + 1)
    data = torch.randint(VOCABULARY, size, generator=generator)
    return data[:, :-1].contiguous(), data[:, 1:].contiguous()


def loss_of(logits, labels):
    """Mean over all tokens."""
    return nn.functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


def adam(parameters):
    # An epsilon that keeps gradients of rounding errors alone from becoming whole steps.
    return torch.optim.AdamW(parameters, lr=0.01, weight_decay=0.1, eps=1e-3, foreach=False)
