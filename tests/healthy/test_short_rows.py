"""Batch norm of a few values a channel: rows of one element, some of which roundings move much
further than others, since they are divided by what two numbers are apart."""

import pytest
import torch
from answers import audited
from torch import nn

import ttrace_torch as tt

CHANNELS, WIDTH = 8192, 4


class Norm(nn.BatchNorm2d):
    fault = None

    def forward(self, x):
        normed = super().forward(x)
        return normed if self.fault is None else self.fault(normed)


class Model(nn.Module):
    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.up = nn.Linear(WIDTH, CHANNELS)
        self.norm = Norm(CHANNELS)
        self.down = nn.Linear(CHANNELS, WIDTH)

    def forward(self, x):
        h = self.norm(self.up(x).movedim(-1, 1)).relu()
        return self.down(h.movedim(1, -1)).square().mean()


def run_job(folder, seed, size, fault=None, specification=None):
    """size: height and width of the maps that are normalised."""
    model = Model(seed)
    model.norm.fault = fault
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tracer = tt.trace(model, optimizer, out=folder / "run.h5", specification=specification)
    with tracer.step(0):
        x = torch.randn(2, *size, WIDTH, generator=torch.Generator().manual_seed(seed))
        tracer.loss(model(x)).backward()
        optimizer.step()
    tracer.close()


def swapped(normed):
    """Two channels of one sample change places."""
    normed = normed.clone()
    normed[1, 10:12] = normed[1, 10:12].flip(0)
    return normed


def scaled(normed):
    """One element is off by a thousandth."""
    factor = torch.ones_like(normed)
    factor[0, 7, 0, 0] = 1.001
    return normed * factor


def stale(normed):
    """One element is that of the other sample."""
    normed = normed.clone()
    normed[0, 7] = normed[1, 7]
    return normed


@pytest.mark.parametrize("seed", range(8))
def test_healthy_run_holds(tmp_path, seed):
    run_job(tmp_path, seed, (1, 1), specification=tmp_path / "specification.json")
    answer = audited(tmp_path)
    assert answer.code == 0 and answer.judged == answer.tensors, answer


@pytest.mark.parametrize("size", [(2, 1), (1, 2), (1, 3)])
def test_healthy_run_of_larger_maps_holds(tmp_path, size):
    run_job(tmp_path, 0, size, specification=tmp_path / "specification.json")
    answer = audited(tmp_path)
    assert answer.code == 0 and answer.judged == answer.tensors, answer


@pytest.mark.parametrize("fault", [swapped, scaled, stale])
def test_wrong_element_is_found(tmp_path, fault):
    run_job(tmp_path, 0, (1, 1), specification=tmp_path / "specification.json")
    run_job(tmp_path, 0, (1, 1), fault)
    answer = audited(tmp_path)
    assert answer.code == 1 and answer.found[0] == "output norm", answer
