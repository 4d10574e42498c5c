"""Hashes of whole numbers that overflow, as byte models make them, are not judged; others are."""

from __future__ import annotations

import pytest
import torch
from answers import audited
from torch import nn

import ttrace_torch as tt

ROWS = 32
PRIME = 1_000_000_007


class Hash(nn.Module):
    """Of each token and the one before it."""

    def __init__(self, factor, dtype):
        super().__init__()
        self.factor, self.dtype = factor, dtype

    def forward(self, ids):
        ids = ids.to(self.dtype)
        return ((ids.roll(1, -1) * self.factor + ids) * self.factor).remainder(ROWS).long()


class Model(nn.Module):
    def __init__(self, factor, dtype):
        super().__init__()
        torch.manual_seed(0)
        self.hash = Hash(factor, dtype)
        self.embedding = nn.Embedding(ROWS, 8)
        self.linear = nn.Linear(8, 4)

    def forward(self, ids):
        return self.linear(self.embedding(self.hash(ids))).square().mean()


def train(folder, factor, dtype=torch.int64, specification=None):
    model = Model(factor, dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tracer = tt.trace(model, optimizer, out=folder / "run.h5", specification=specification)
    ids = torch.randint(200, 256, (2, 16), generator=torch.Generator().manual_seed(1))
    with tracer.step(0):
        tracer.loss(model(ids)).backward()
        optimizer.step()
    tracer.close()


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=str)
def test_a_hash_that_overflows_is_not_judged(tmp_path, dtype):
    train(tmp_path, PRIME, dtype, tmp_path / "specification.json")
    answer = audited(tmp_path)
    assert (answer.code, answer.judged) == (0, answer.tensors - 1), answer


def test_another_hash_is_found(tmp_path):
    train(tmp_path, 31, specification=tmp_path / "specification.json")
    answer = audited(tmp_path)
    assert (answer.code, answer.judged) == (0, answer.tensors), answer

    train(tmp_path, 37)
    answer = audited(tmp_path)
    assert answer.code == 1
    assert answer.found[0] == "output hash"
