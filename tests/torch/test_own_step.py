"""Optimizers whose own `step()` sets what torch's then updates by."""

from __future__ import annotations

import json

import pytest
import torch
from small_models import TiedGPT, seeded, train_step
from support.ttrace_cli import run_ttrace
from trace_reading import Trace

import ttrace_torch as tt


class AdamW(torch.optim.AdamW):
    """Warms up: the learning rate of an update is set when it begins."""

    made = 0

    def step(self, closure=None):
        self.made += 1
        for group in self.param_groups:
            group["lr"] = 1e-3 * self.made
        return super().step(closure)


class Decays(torch.optim.AdamW):
    """Sets the learning rate of the next update when it has made one."""

    def step(self, closure=None):
        result = super().step(closure)
        for group in self.param_groups:
            group["lr"] /= 2
        return result


class Counting(torch.optim.SGD):
    """Adds nothing to torch's step."""

    def step(self, closure=None):
        return super().step(closure)


def trained(path, make):
    model = seeded(TiedGPT)
    optimizer = make(model.parameters())
    with tt.trace(model, optimizer, out=path, steps=[0, 1]) as tracer:
        for step in range(3):
            train_step(model, tracer, optimizer, step=step)
    return Trace(path)


@pytest.mark.parametrize("also_torch", [False, True], ids=["alone", "beside torch's own"])
def test_the_settings_of_an_update_are_those_that_it_was_made_with(tmp_path, also_torch):
    if also_torch:
        # torch then calls the hooks of `step` around the step of the class and of its own.
        torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))])
        torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))])
    trace = trained(tmp_path / "warm.h5", lambda p: AdamW(p, lr=5.0))
    settings = trace.manifest["optimizer"]
    assert [(one["step"], one["lr"], one["updates"]) for one in settings] == [
        (0, 1e-3, 1),
        (1, 2e-3, 2),
    ]
    audit = tmp_path / "audit.json"
    run_ttrace("audit", tmp_path / "warm.h5", "--json", audit)
    updates = [
        check
        for tensor in json.loads(audit.read_text(encoding="utf-8"))["results"]
        for check in tensor.get("checks", [])
        if check["operation"] == "optimizer step"
    ]
    assert updates and {one["result"] for one in updates} == {"consistent"}
    late = trained(tmp_path / "late.h5", lambda p: Decays(p, lr=1.0))
    assert [one["lr"] for one in late.manifest["optimizer"]] == [1.0, 0.5]
    plain = trained(tmp_path / "plain.h5", lambda p: Counting(p, lr=0.1))
    assert [one["updates"] for one in plain.manifest["optimizer"]] == [1, 2]
    assert plain.manifest["run"].get("incomplete", []) == []
