"""One run attends eagerly, with weights and a mask in numbers, the other by torch's function."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from answers import compared
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

import ttrace_torch as tt

WIDTH, HEADS, TOKENS = 16, 2, 8


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, hidden, mask):
        q, k, v = (
            part.unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for part in self.qkv(hidden).chunk(3, dim=-1)
        )
        weights = None
        if self.config._attn_implementation == "eager":
            weights = torch.softmax(q @ k.transpose(2, 3) * q.shape[-1] ** -0.5 + mask, -1)
            mixed = weights @ v
        else:
            mixed = scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(mixed.transpose(1, 2).flatten(-2)), weights


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attn = Attention(config)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, hidden, mask):
        attended, weights = self.attn(self.norm(hidden), mask)
        return hidden + attended, weights


class Model(nn.Module):
    """sees: by how many tokens a token sees ahead."""

    def __init__(self, attention, sees=0):
        super().__init__()
        torch.manual_seed(0)
        self.config = SimpleNamespace(_attn_implementation=attention)
        self.sees = sees
        self.embedding = nn.Embedding(32, WIDTH)
        self.layers = nn.ModuleList(Layer(self.config) for _ in range(2))
        self.head = nn.Linear(WIDTH, 32)

    def forward(self, ids):
        mask = torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril(self.sees)[None, None]
        if self.config._attn_implementation == "eager":
            mask = torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(torch.float32).min)
        hidden = self.embedding(ids)
        for layer in self.layers:
            hidden, _ = layer(hidden, mask)
        return self.head(hidden)


def train(folder, out, model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tracer = tt.trace(model, optimizer, out=folder / out)
    ids = torch.randint(32, (2, TOKENS), generator=torch.Generator().manual_seed(1))
    with tracer.step(0):
        logits = model(ids).flatten(0, 1)
        tracer.loss(nn.functional.cross_entropy(logits, ids.flatten())).backward()
        optimizer.step()
    tracer.close()


@pytest.mark.parametrize("reference, candidate", [("eager", "sdpa"), ("sdpa", "eager")])
def test_weights_and_masks_of_one_side_are_not_missing(tmp_path, reference, candidate):
    train(tmp_path, "reference.h5", Model(reference))
    train(tmp_path, "run.h5", Model(candidate))
    answer = compared(tmp_path)
    assert (answer.code, answer.found) == (0, []), answer
    # Of two layers: weights, their gradient, and handed on; masks of the layer and the attention.
    assert "12 not recorded by the other implementation" in answer.line


@pytest.mark.parametrize("reference, candidate", [("eager", "sdpa"), ("sdpa", "eager")])
def test_a_mask_that_shows_the_future_is_found(tmp_path, reference, candidate):
    train(tmp_path, "reference.h5", Model(reference))
    train(tmp_path, "run.h5", Model(candidate, sees=1))
    answer = compared(tmp_path)
    assert answer.code == 1
    assert answer.found[0] == "input layers.0.attn.out"


def test_weights_that_the_same_implementation_lacks_are_missing(tmp_path):
    class Without(Attention):
        def forward(self, hidden, mask):
            return Attention.forward(self, hidden, mask)[0], None

    train(tmp_path, "reference.h5", Model("eager"))
    model = Model("eager")
    for layer in model.layers:
        layer.attn.__class__ = Without
    train(tmp_path, "run.h5", model)
    assert compared(tmp_path).code == 1
