"""Jobs that change parameters by hand behind the optimizer's step."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import jsonschema_rs
import pytest
import torch
from support.ttrace_cli import DIVERGED, INCONCLUSIVE, MATCH, run_ttrace
from torch import nn
from trace_reading import Trace

import ttrace_torch as tt

SCHEMAS = Path(__file__).parents[2] / "schemas"
OPTIMIZERS = {
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.01),
    "adam one by one": lambda parameters: torch.optim.Adam(parameters, lr=0.01, foreach=False),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
    "nadam": lambda parameters: torch.optim.NAdam(parameters, lr=0.01),
}


def rewrite(model, how):
    weight = model[0].weight
    if how.startswith("clamp"):  # as the critic of a Wasserstein GAN; torch does not count this
        bound = 0.12 if how == "clamp wider" else 0.1
        for parameter in model.parameters():
            parameter.data.clamp_(-bound, bound)
    elif how == "normalise":
        with torch.no_grad():
            weight.div_(weight.norm(dim=1, keepdim=True))
    elif how == "decay":
        with torch.no_grad():
            weight.mul_(0.999)


def train(out, how="", optimizer="adamw", clips=False, specification=None, steps=3):
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(16, 24), nn.Tanh(), nn.Linear(24, 4))
    updates = OPTIMIZERS[optimizer](model.parameters())
    with tt.trace(model, updates, out=out, specification=specification) as tracer:
        for step in range(steps):
            with tracer.step(step):
                with tracer.microbatch(0):
                    loss = tracer.loss(model(torch.randn(8, 16)).square().mean())
                    loss.backward()
                if clips:
                    nn.utils.clip_grad_norm_(model.parameters(), 0.01)
                updates.step()
                rewrite(model, how)
                updates.zero_grad()


def answers(folder, reference, candidate, **given):
    specification = folder / "specification.json"
    train(folder / "ref.h5", reference, specification=specification, **given)
    train(folder / "run.h5", candidate, **given)
    compared = run_ttrace("compare", folder / "ref.h5", folder / "run.h5")
    audited = run_ttrace("audit", folder / "run.h5", "--specification", specification)
    return compared, audited


@pytest.mark.parametrize("clips", [False, True], ids=["", "clipped"])
@pytest.mark.parametrize("optimizer", ["adamw", "adam one by one", "momentum"])
@pytest.mark.parametrize("how", ["clamp", "normalise", "decay"])
def test_a_healthy_job_is_not_accused(tmp_path, how, optimizer, clips):
    compared, audited = answers(tmp_path, how, how, optimizer=optimizer, clips=clips)
    assert compared.returncode == MATCH, compared.stdout
    assert audited.returncode == MATCH, audited.stdout
    assert "(100 %)" in audited.stdout.splitlines()[0]


@pytest.mark.parametrize("optimizer", ["adamw", "momentum"])
@pytest.mark.parametrize(
    ("reference", "candidate"),
    [("clamp", ""), ("", "clamp"), ("clamp", "clamp wider"), ("", "decay"), ("decay", "")],
)
def test_a_job_that_writes_otherwise_is_named(tmp_path, reference, candidate, optimizer):
    """It forgets to write, or writes what the reference leaves alone: what it says of itself is no
    excuse."""
    compared, audited = answers(tmp_path, reference, candidate, optimizer=optimizer)
    assert audited.returncode == DIVERGED, audited.stdout
    assert "update" in audited.stdout.splitlines()[0]
    assert compared.returncode != MATCH, compared.stdout
    if not reference:
        assert compared.returncode == DIVERGED, compared.stdout


@pytest.mark.parametrize("optimizer", ["nadam", "adamw"])
def test_a_norm_that_nobody_told_is_that_of_the_gradients(tmp_path, optimizer):
    """Formulas of updates read it, and no trace has it."""
    how = "" if optimizer == "nadam" else "decay"
    _, audited = answers(tmp_path, how, how, optimizer=optimizer, clips=True)
    assert audited.returncode == MATCH, audited.stdout
    specification = json.loads((tmp_path / "specification.json").read_text())
    norms = [t for t in specification["updates"][0]["tensors"] if t["kind"] == "grad_norm"]
    assert [norm["name"] for norm in norms] == ["grad_norm"]
    train(tmp_path / "other.h5", how, optimizer=optimizer)
    audited = run_ttrace(
        "audit", tmp_path / "other.h5", "--specification", tmp_path / "specification.json"
    )
    assert audited.returncode != MATCH, audited.stdout


def test_without_a_specification_nothing_says_what_is_right(tmp_path):
    """A run that says so itself is neither accused nor believed."""
    train(tmp_path / "run.h5", "clamp")
    audited = run_ttrace("audit", tmp_path / "run.h5", "--kind", "param_after_step")
    assert audited.returncode == INCONCLUSIVE, audited.stdout
    assert "it is changed by hand" in audited.stdout


def test_what_is_written_is_valid(tmp_path):
    train(tmp_path / "run.h5", "decay", specification=tmp_path / "specification.json", steps=1)
    manifest = Trace(tmp_path / "run.h5").manifest
    assert manifest["run"]["rewritten"] == [{"step": 0, "params": ["0.weight"]}]
    specification = json.loads((tmp_path / "specification.json").read_text())
    assert specification["updates"][0]["rewritten"] == ["0.weight"]
    for name, document in (("manifest", manifest), ("specification", specification)):
        schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
        jsonschema_rs.Draft202012Validator(schema).validate(document)


class Pair(nn.Module):
    """A student, and a teacher that is a slow copy of it, as in MoCo, BYOL and DINO."""

    def __init__(self, when, momentum):
        super().__init__()
        self.when, self.momentum = when, momentum
        self.student = nn.Linear(16, 8)
        self.teacher = copy.deepcopy(self.student).requires_grad_(False)

    @torch.no_grad()
    def follow(self):
        for slow, fast in zip(
            *map(nn.Module.parameters, (self.teacher, self.student)), strict=True
        ):
            slow.data = slow.data * self.momentum + fast.data * (1 - self.momentum)

    def forward(self, x):
        if self.when == "in the forward":
            self.follow()
        return (self.student(x) - self.teacher(x.flip(0))).square().mean()


def train_pair(out, when, momentum, holds_all=False, specification=None):
    torch.manual_seed(4)
    model = Pair(when, momentum)
    held = model if holds_all else model.student
    optimizer = torch.optim.AdamW(held.parameters(), lr=0.01)
    with tt.trace(model, optimizer, out=out, specification=specification) as tracer:
        for step in range(3):
            with tracer.step(step):
                if when == "before":
                    model.follow()
                with tracer.microbatch(0):
                    tracer.loss(model(torch.randn(8, 16))).backward()
                optimizer.step()
                if when == "behind":
                    model.follow()
                optimizer.zero_grad()


@pytest.mark.parametrize("holds_all", [False, True], ids=["", "held"])
@pytest.mark.parametrize("when", ["behind", "before", "in the forward"])
def test_a_slow_copy_of_other_parameters_is_judged(tmp_path, when, holds_all):
    specification = tmp_path / "specification.json"
    train_pair(tmp_path / "ref.h5", when, 0.9, holds_all, specification)
    for momentum, expected in ((0.9, MATCH), (0.8, DIVERGED)):
        train_pair(tmp_path / "run.h5", when, momentum, holds_all)
        compared = run_ttrace("compare", tmp_path / "ref.h5", tmp_path / "run.h5")
        audited = run_ttrace("audit", tmp_path / "run.h5", "--specification", specification)
        assert compared.returncode == expected, compared.stdout
        assert audited.returncode == expected, audited.stdout


def train_ahead(out, restores=True, norm=False, specification=None):
    """Sharpness-aware minimization: gradients where the weights would be a step later."""
    torch.manual_seed(5)
    middle = [nn.BatchNorm1d(24)] if norm else []
    model = nn.Sequential(nn.Linear(16, 24), *middle, nn.Tanh(), nn.Linear(24, 4))
    weights = list(model.parameters())
    optimizer = torch.optim.SGD(weights, lr=0.05, momentum=0.9)
    with tt.trace(model, optimizer, out=out, specification=specification) as tracer:
        for step in range(3):
            with tracer.step(step):
                x = torch.randn(8, 16)
                ahead = torch.autograd.grad(model(x).square().mean(), weights)
                torch._foreach_add_([one.data for one in weights], ahead, alpha=0.1)
                with tracer.microbatch(0):
                    tracer.loss(model(x).square().mean()).backward()
                if restores or step == 0:
                    torch._foreach_sub_([one.data for one in weights], ahead, alpha=0.1)
                optimizer.step()
                optimizer.zero_grad()


@pytest.mark.parametrize("norm", [False, True], ids=["", "with a batch norm"])
def test_weights_that_were_changed_and_restored_before_the_update(tmp_path, norm):
    """They are off by a rounding, which no formula of the specification knows."""
    specification = tmp_path / "specification.json"
    train_ahead(tmp_path / "ref.h5", True, norm, specification)
    train_ahead(tmp_path / "run.h5", True, norm)
    compared = run_ttrace("compare", tmp_path / "ref.h5", tmp_path / "run.h5")
    audited = run_ttrace("audit", tmp_path / "run.h5", "--specification", specification)
    assert compared.returncode == MATCH, compared.stdout
    assert audited.returncode != DIVERGED, audited.stdout
    train_ahead(tmp_path / "run.h5", False, norm)
    compared = run_ttrace("compare", tmp_path / "ref.h5", tmp_path / "run.h5")
    audited = run_ttrace("audit", tmp_path / "run.h5", "--specification", specification)
    assert compared.returncode == DIVERGED, compared.stdout
    assert audited.returncode != MATCH, audited.stdout


def test_a_parameter_without_memory_stops_nothing(tmp_path):
    model = nn.Linear(4, 4)
    model.unused = nn.Parameter(torch.empty(3, device="meta"), requires_grad=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tt.trace(model, optimizer, out=tmp_path / "run.h5") as tracer, tracer.step(0):
        with tracer.microbatch(0):
            tracer.loss(model(torch.ones(2, 4)).sum()).backward()
        optimizer.step()
    names = {entry["name"] for entry in Trace(tmp_path / "run.h5").manifest["tensors"]}
    assert {"weight", "bias"} <= names


@pytest.mark.parametrize("optimizer", [torch.optim.NAdam, torch.optim.SGD])
def test_a_norm_of_gradients_that_no_optimizer_holds_is_not_guessed(tmp_path, optimizer):
    """The trace does not say that they count."""
    specification = tmp_path / "specification.json"
    for out in (tmp_path / "ref.h5", tmp_path / "run.h5"):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.Linear(8, 2))
        own = [optimizer(model[0].parameters(), lr=0.01), torch.optim.AdamW(model[3].parameters())]
        given = specification if out.name == "ref.h5" else None
        with tt.trace(model, own, out=out, specification=given) as tracer, tracer.step(0):
            with tracer.microbatch(0):
                tracer.loss(model(torch.randn(4, 8)).square().mean()).backward()
            nn.utils.clip_grad_norm_([*model[0].parameters(), *model[2].parameters()], 0.01)
            for one in own:
                one.step()
    compared = run_ttrace("compare", tmp_path / "ref.h5", tmp_path / "run.h5")
    audited = run_ttrace("audit", tmp_path / "run.h5", "--specification", specification)
    assert compared.returncode == MATCH, compared.stdout
    assert audited.returncode == INCONCLUSIVE, audited.stdout
