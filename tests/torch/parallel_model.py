"""A small model to be cut, its run in one process, and the comparison with that run."""

from __future__ import annotations

import numpy as np
import torch
from small_models import VOCABULARY, WIDTH, batch, cross_entropy, seeded
from torch import nn
from trace_reading import Trace

import ttrace_torch as tt


class ParallelModel(nn.Module):
    """Embedding, norm, a column- and a row-parallel linear layer, and a head."""

    def __init__(self, hidden=12):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY + 1, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, hidden)
        self.down = nn.Linear(hidden, WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids):
        x = self.embedding(ids)
        x = x + self.down(nn.functional.gelu(self.up(self.norm(x))))
        return self.head(x)


def reference(path, make=ParallelModel, length=6):
    model = seeded(make)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    with tt.trace(model, optimizer, out=path) as tracer, tracer.step(0):
        ids, targets = batch(length=length)
        tracer.loss(cross_entropy(model(ids), targets)).backward()
        optimizer.step()
    return Trace(path)


def compare(candidate, expected, kinds=None, rtol=2e-5):
    """Every tensor of the reference is in the candidate, with its shape and value."""
    compared = 0
    for key, entry in expected.entries.items():
        if kinds is not None and key[0] not in kinds:
            continue
        assert candidate.entry(*key)["shape"] == entry["shape"], key
        found, value = candidate.value(*key), expected.value(*key)
        if entry["dtype"].startswith("float"):
            atol = rtol * max(1e-6, np.abs(value).max())
            np.testing.assert_allclose(found, value, rtol=rtol, atol=atol, err_msg=str(key))
        else:
            np.testing.assert_array_equal(found, value, err_msg=str(key))
        compared += 1
    return compared
