"""Arguments meet by name, so that one that a run has more is told and shifts no other."""

from __future__ import annotations

import torch
from support.ttrace_cli import DIVERGED, run_ttrace
from torch import nn

import ttrace_torch as tt


class Attention(nn.Module):
    def forward(self, hidden, mask=None, cos=None, sin=None):
        return hidden * cos + hidden.roll(1) * sin


class Model(nn.Module):
    """Hands a mask on that its layers do not need."""

    def __init__(self, masks):
        super().__init__()
        self.attention = Attention()
        self.masks = masks

    def forward(self, x):
        mask = torch.ones(4, 4, dtype=torch.bool) if self.masks else None
        return self.attention(x, mask, cos=torch.cos(x), sin=torch.sin(x))


def traced(path, masks=False):
    model = Model(masks)
    with tt.trace(model, out=path) as tracer, tracer.step(0):
        tracer.loss(model(torch.arange(4.0)).sum())
    return path


def test_an_optional_mask_on_one_side_is_told_and_nothing_else(tmp_path):
    one = traced(tmp_path / "one.h5")
    other = traced(tmp_path / "other.h5", masks=True)
    done = run_ttrace("compare", one, other)
    assert done.returncode == DIVERGED
    assert "1 finding:" in done.stdout.replace("1 finding,", "1 finding:")
    assert "attention[mask]" in done.stdout
    assert "attention ran in the reference without this argument" in done.stdout
    assert "1 extra" in done.stdout
    done = run_ttrace("compare", other, one)
    assert done.returncode == DIVERGED
    assert "attention ran in the candidate without this argument" in done.stdout
    assert "1 missing" in done.stdout
    assert "diverged" not in done.stdout
