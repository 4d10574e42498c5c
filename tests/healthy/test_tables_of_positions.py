"""A table of positions is a buffer, which no trace has: the specification has its elements."""

from __future__ import annotations

import torch
from answers import audited
from torch import nn

import ttrace_torch as tt

POSITIONS, WIDTH = 200, 48


class Positions(nn.Module):
    def __init__(self, scale=1.0):
        super().__init__()
        angles = torch.arange(POSITIONS)[:, None] * torch.logspace(0, -4, WIDTH // 2)
        table = torch.cat([angles.sin(), angles.cos()], 1) * scale
        self.register_buffer("weights", table, persistent=False)

    def forward(self, ids):
        return self.weights.index_select(0, ids.flatten()).view(*ids.shape, WIDTH)


class Model(nn.Module):
    def __init__(self, scale=1.0):
        super().__init__()
        torch.manual_seed(0)
        self.positions = Positions(scale)
        self.linear = nn.Linear(WIDTH, 4)

    def forward(self, ids):
        return self.linear(self.positions(ids)).square().mean()


def train(folder, model, specification=None):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tracer = tt.trace(model, optimizer, out=folder / "run.h5", specification=specification)
    with tracer.step(0):
        tracer.loss(model(torch.arange(2, 18).view(2, 8))).backward()
        optimizer.step()
    tracer.close()


def test_what_follows_from_a_table_is_judged(tmp_path):
    assert POSITIONS * WIDTH > 4096
    train(tmp_path, Model(), tmp_path / "specification.json")
    answer = audited(tmp_path)
    assert (answer.code, answer.judged) == (0, answer.tensors), answer

    train(tmp_path, Model(scale=1.01))
    answer = audited(tmp_path)
    assert answer.code == 1
    assert answer.found[0] == "output positions"
