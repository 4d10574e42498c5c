"""A parameter that gets no gradient in one run and one in the other."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema_rs
import pytest
import torch
from support.ttrace_cli import DIVERGED, INCONCLUSIVE, MATCH, run_ttrace
from torch import nn

import ttrace_torch as tt

SCHEMA = Path(__file__).parents[2] / "schemas" / "specification.schema.json"


class Model(nn.Module):
    def __init__(self, fault):
        super().__init__()
        self.fault = fault
        self.first, self.second, self.last = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x):
        x = self.first(x).relu()
        if self.fault == "detached":
            x = x.detach()
        if self.fault == "frozen":
            self.second.weight.requires_grad_(False)
        # An expert that got no token does not run.
        return self.last(x if self.fault == "skipped" else self.second(x).relu())


def train(out, fault, specification=None, clips=False, **given):
    torch.manual_seed(1)
    model = Model(fault)
    held = [p for p in model.parameters() if fault != "left out" or p is not model.second.weight]
    optimizer = torch.optim.AdamW(held, lr=0.01)
    with tt.trace(model, optimizer, out=out, specification=specification, **given) as tracer:
        for step in range(2):
            if step == 1 and fault in ("frozen later", "kept zeros", "shrinks", "shrinks more"):
                weight = model.second.weight.requires_grad_(False)
                weight.grad = torch.zeros_like(weight) if fault == "kept zeros" else None
            with tracer.step(step):
                for number in range(2):
                    with tracer.microbatch(number):
                        x = torch.randn(5, 8, generator=torch.Generator().manual_seed(number))
                        (tracer.loss(model(x).square().mean()) / 2).backward()
                if clips:
                    torch.nn.utils.clip_grad_norm_(held, 0.01)
                optimizer.step()
                if fault.startswith("shrinks"):
                    with torch.no_grad():
                        model.second.weight.mul_(0.999 if fault == "shrinks" else 0.99)
                optimizer.zero_grad()


def answers(folder, fault, reference="", **given):
    specification = folder / "specification.json"
    train(folder / "ref.h5", reference, specification, clips=given.get("clips", False))
    train(folder / "run.h5", fault, **given)
    compared = run_ttrace("compare", folder / "ref.h5", folder / "run.h5")
    audited = run_ttrace("audit", folder / "run.h5", "--specification", specification)
    return compared, audited


@pytest.mark.parametrize(
    ("fault", "lacks", "untrained"),
    [
        ("detached", "the gradient of the output of first", "first.weight"),
        ("frozen", "the raw gradient of second.weight", "second.weight"),
    ],
)
def test_it_is_named(tmp_path, fault, lacks, untrained):
    compared, audited = answers(tmp_path, fault)
    assert compared.returncode == DIVERGED
    first = compared.stdout.splitlines()[0]
    assert f"the candidate lacks {lacks}: no gradient reached it" in first
    assert not any(line.split() == ["proof"] for line in compared.stdout.splitlines())
    assert audited.returncode == DIVERGED
    first = audited.stdout.splitlines()[0]
    assert f"parameter {untrained}: got no gradient, although the loss follows from it" in first


def test_a_parameter_that_no_optimizer_has_is_named(tmp_path):
    compared, audited = answers(tmp_path, "left out")
    first = compared.stdout.splitlines()[0]
    assert "the optimizer of the candidate has no group with parameter second.weight" in first
    assert audited.returncode == DIVERGED
    first = audited.stdout.splitlines()[0]
    assert "second.weight" in first and "no optimizer of this run has the parameter" in first


@pytest.mark.parametrize("fault", ["kept zeros", ""])
def test_a_parameter_that_should_be_frozen_and_moves_is_named(tmp_path, fault):
    """Momentum and decay go on by a gradient of zeros, whose replay is no excuse; or the run
    forgets to freeze it."""
    compared, audited = answers(tmp_path, fault, reference="frozen later")
    assert compared.returncode == DIVERGED
    if fault:
        first = compared.stdout.splitlines()[0]
        assert "the update of second.weight in step 1 was moved by a step in which" in first
    assert audited.returncode == DIVERGED
    first = audited.stdout.splitlines()[0]
    assert "the update of second.weight in step 1 was moved by a step in which the" in first
    assert "64 of 64 elements have moved, although the reference froze the" in audited.stdout


@pytest.mark.parametrize("given", [{}, {"clips": True}, {"steps": [1]}], ids=str)
def test_a_parameter_that_is_frozen_amid_the_run_is_not_missed(tmp_path, given):
    """Nor is one of a run that begins behind the freezing."""
    _, audited = answers(tmp_path, "frozen later", reference="frozen later", **given)
    assert audited.returncode == MATCH, audited.stdout
    assert "lacks" not in audited.stdout
    specification = json.loads((tmp_path / "specification.json").read_text())
    schema = json.loads(SCHEMA.read_text())
    jsonschema_rs.Draft202012Validator(schema).validate(specification)
    frozen = [one.get("frozen") for one in specification["updates"]]
    assert frozen == [None, ["second.weight"]]


@pytest.mark.parametrize("fault", ["shrinks", "shrinks more"])
def test_a_parameter_that_the_reference_moves_by_hand_may_move_alike(tmp_path, fault):
    """In step 0 behind the optimizer's step, and frozen in step 1."""
    compared, audited = answers(tmp_path, fault, reference="shrinks")
    if fault == "shrinks":
        assert compared.returncode == MATCH, compared.stdout
        assert "it is changed by hand (2)" in compared.stderr
    else:
        assert compared.returncode == DIVERGED, compared.stdout
        assert "second.weight" in compared.stdout.splitlines()[0]
    assert "have moved, although" not in audited.stdout


def test_a_healthy_run_is_not_accused(tmp_path):
    compared, audited = answers(tmp_path, "")
    assert (compared.returncode, audited.returncode) == (MATCH, MATCH)


def test_a_module_that_did_not_run_is_not_accused(tmp_path):
    """The audit has no word on what ran: tokens may have gone elsewhere."""
    _, audited = answers(tmp_path, "skipped")
    assert "got no gradient" not in audited.stdout


def test_gradients_that_were_not_asked_for_are_not_missed(tmp_path):
    _, audited = answers(tmp_path, "", kinds=("param", "input", "output", "loss", "grad_output"))
    assert audited.returncode == INCONCLUSIVE
    assert "got no gradient" not in audited.stdout
