"""Arguments meet by name, so that one that a run has more is told and shifts no other."""

from __future__ import annotations

import json

import h5py
import pytest
import torch
from support.ttrace_cli import DIVERGED, MATCH, run_ttrace
from torch import nn
from trace_reading import Trace, dataset_path

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


def as_version_1(path):
    """Makes of a trace of version 2 what the collector wrote before."""
    manifest = Trace(path).manifest
    manifest["schema"] = "ttrace.manifest/1"
    for member in ("id", "recorded"):
        del manifest["run"][member]
    with h5py.File(path, "r+") as file:
        for entry in manifest["tensors"]:
            old = dataset_path(entry)
            if "position" in entry:
                module, position = entry["name"].split("[")[0], entry.pop("position")
                entry["name"] = f"{module}[{position}]" if position else module
                file.move(old, dataset_path(entry))
        del file["manifest"]
        file["manifest"] = json.dumps(manifest)
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


@pytest.mark.parametrize("old_one", [True, False])
def test_a_trace_of_version_1_is_compared_by_position(tmp_path, old_one):
    old = as_version_1(traced(tmp_path / "old.h5"))
    assert Trace(old).names("input") == ["(model)", "attention", "attention[1]", "attention[2]"]
    now = traced(tmp_path / "now.h5")
    names = ["(model)", "attention", "attention[cos]", "attention[sin]"]
    assert Trace(now).names("input") == names
    done = run_ttrace("compare", *((old, now) if old_one else (now, old)))
    assert done.returncode == MATCH, done.stdout + done.stderr
    assert done.stdout.startswith("MATCH")


@pytest.mark.parametrize("old_has_mask", [True, False])
def test_a_mask_that_one_version_has_shifts_nothing(tmp_path, old_has_mask):
    old = as_version_1(traced(tmp_path / "old.h5", masks=old_has_mask))
    now = traced(tmp_path / "now.h5", masks=not old_has_mask)
    done = run_ttrace("compare", old, now)
    assert done.returncode == DIVERGED
    assert ("attention[1]" if old_has_mask else "attention[mask]") in done.stdout
    assert "diverged" not in done.stdout
    assert "1 missing" in done.stdout if old_has_mask else "1 extra" in done.stdout
