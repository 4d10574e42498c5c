"""Small models that the tests trace."""

from __future__ import annotations

import torch
from torch import nn

VOCABULARY = 13
WIDTH = 8


class Block(nn.Module):
    """A pre-norm residual block."""

    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.attn = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(inplace=True), nn.Linear(2 * WIDTH, WIDTH)
        )

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class TiedGPT(nn.Module):
    """Embedding, residual blocks, a norm, and a head that shares the embedding's weight."""

    def __init__(self, layers=2):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Block() for _ in range(layers))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids):
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def seeded(make, seed=0):
    """`make()` with weights that depend on the seed alone."""
    torch.manual_seed(seed)
    return make()


def batch(seed=0, rows=2, length=5):
    """Token ids and targets [rows, length]."""
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.randint(VOCABULARY, (rows, length), generator=generator),
        torch.randint(VOCABULARY, (rows, length), generator=generator),
    )


def cross_entropy(logits, targets):
    """Mean cross entropy over all tokens."""
    return nn.functional.cross_entropy(logits.flatten(0, -2), targets.flatten())


def train_step(model, tracer, optimizer=None, step=0, microbatches=1):
    """One traced step with accumulation; returns the losses."""
    losses = []
    with tracer.step(step):
        for number in range(microbatches):
            with tracer.microbatch(number):
                ids, targets = batch(seed=100 * step + number)
                loss = tracer.loss(cross_entropy(model(ids), targets))
                (loss / microbatches).backward()
                losses.append(loss.item())
        if optimizer is not None:
            optimizer.step()
            optimizer.zero_grad()
    return losses
