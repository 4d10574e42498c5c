"""Rows that are shifted against each other, as relative positions shift scores, and then written
into: the strides of such a view do not divide each other."""

from __future__ import annotations

import pytest
import torch
from answers import audited
from torch import nn

import ttrace_torch as tt

WIDTH, LENGTH = 6, 8


class Scores(nn.Module):
    """Scores of each position for the distances to the others, as Funnel and Transformer-XL have
    them."""

    def __init__(self, shift):
        super().__init__()
        self.shift = shift
        self.distances = nn.Parameter(torch.randn(2 * LENGTH + shift - 1, WIDTH))

    def forward(self, x):
        batch, count = len(x), len(self.distances)
        by_distance = torch.einsum("bsd,md->bsm", x, self.distances)
        shifted = by_distance.reshape(batch, count, LENGTH)[:, self.shift :]
        scores = shifted.reshape(batch, LENGTH, count - self.shift)[..., :LENGTH]
        scores *= torch.ones(LENGTH, LENGTH).tril()
        return scores


class Model(nn.Module):
    def __init__(self, shift):
        super().__init__()
        torch.manual_seed(0)
        self.encode = nn.Linear(WIDTH, WIDTH)
        self.scores = Scores(shift)
        self.forgets = False

    def forward(self, x):
        x = self.encode(x)
        scores = self.scores(x)
        if self.forgets:
            scores = scores.detach() + 0.5 * (scores - scores.detach())
        return (scores.softmax(-1) @ x).square().mean()


def train(folder, model, specification=None):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tracer = tt.trace(model, optimizer, out=folder / "run.h5", specification=specification)
    rows = torch.randn(2, LENGTH, WIDTH, generator=torch.Generator().manual_seed(1))
    with tracer.step(0):
        tracer.loss(model(rows)).backward()
        optimizer.step()
    tracer.close()


@pytest.mark.parametrize("shift", [1, 2])
def test_every_tensor_around_a_relative_shift_is_judged(tmp_path, shift):
    train(tmp_path, Model(shift), tmp_path / "specification.json")
    answer = audited(tmp_path)
    assert (answer.code, answer.judged) == (0, answer.tensors), answer

    faulty = Model(shift)
    faulty.forgets = True
    train(tmp_path, faulty)
    answer = audited(tmp_path)
    assert answer.code == 1
    assert answer.found[0] == "grad_output scores"
