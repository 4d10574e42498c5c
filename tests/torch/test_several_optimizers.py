"""Two optimizers that make their steps at different times of a step, as those of a generator and
its critic, or of an actor and a critic."""

from __future__ import annotations

import json
from contextlib import nullcontext

import jsonschema_rs
import pytest
import torch
import torch.nn.functional as F
from process_groups import run_ranks
from support.ttrace_cli import DIVERGED, INCONCLUSIVE, MATCH, run_ttrace
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from trace_reading import SCHEMAS, Trace

import ttrace_torch as tt

RANKS, SAMPLES = 2, 4


class Gan(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 10))
        self.critic = nn.Sequential(nn.Linear(10, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))

    def forward(self, noise, real=None, detach=False):
        made = self.generator(noise)
        if detach:
            made = made.detach()
        return self.critic(made if real is None else torch.cat([real, made]))


def sample(number):
    numbers = torch.Generator().manual_seed(number)
    return torch.randn(8, 6, generator=numbers), torch.randn(8, 10, generator=numbers)


class Job:
    """A training of a Gan.

    order: the parts of the model, as they take turns.
    together: both make their steps after the last backward.
    single: one optimizer has all parameters.
    equal: the critic gets samples of the same size as in the generator's turn.
    numbered: whether each turn has micro-batches of its own.
    leftovers: the critic keeps the gradients that the generator's turn left it.
    lost: the part that makes no step.
    """

    def __init__(self, out, rank=0, ranks=1, specification=None, **how):
        self.how = {
            "order": ("generator", "critic"),
            "together": False,
            "single": False,
            "equal": False,
            "numbered": True,
            "leftovers": False,
            "lost": None,
            "clip": None,
            "scaler": None,
            "steps": 1,
            **how,
        }
        torch.manual_seed(3)
        self.model = Gan()
        self.run = self.model
        if ranks > 1:
            self.run = DistributedDataParallel(self.model, find_unused_parameters=True)
        self.optimizers = {
            part: torch.optim.Adam(getattr(self.model, part).parameters(), lr=1e-2)
            for part in ("generator", "critic")
        }
        if self.how["single"]:
            self.optimizers = {"critic": torch.optim.Adam(self.model.parameters(), lr=1e-2)}
        scale = self.how["scaler"]
        self.scaler = torch.amp.GradScaler("cpu", init_scale=scale) if scale else None
        self.own = range(rank * SAMPLES // ranks, (rank + 1) * SAMPLES // ranks)
        mesh = tt.Mesh({"dp": ranks}) if ranks > 1 else None
        given = {"out": out, "mesh": mesh, "specification": specification}
        if self.scaler is not None:
            given["scaler"] = self.scaler
        with tt.trace(self.run, list(self.optimizers.values()), **given) as tracer:
            self.tracer = tracer
            for step in range(self.how["steps"]):
                with tracer.step(step):
                    self.step()

    def step(self):
        for turn, part in enumerate(self.how["order"]):
            self.backward(turn, part)
            if not self.how["together"]:
                self.update(part)
                left = self.optimizers[part] if self.how["leftovers"] else self.model
                left.zero_grad()
        if self.how["together"]:
            for part in self.optimizers:
                self.update(part)
            self.model.zero_grad()
        if self.scaler is not None:
            self.scaler.update()

    def backward(self, turn, part):
        for place, number in enumerate(self.own):
            last = place == len(self.own) - 1
            numbered = self.how["numbered"]
            context = self.tracer.microbatch(SAMPLES * turn + number) if numbered else nullcontext()
            alone = self.run is self.model or last
            with context, nullcontext() if alone else self.run.no_sync():
                loss = self.tracer.loss(self.loss(part, *sample(number))) / len(self.own)
                (loss if self.scaler is None else self.scaler.scale(loss)).backward()

    def loss(self, part, noise, real):
        if part == "generator":
            return F.softplus(-self.run(noise)).mean()
        if self.how["equal"]:
            return F.softplus(self.run(noise, detach=True)).mean()
        out = self.run(noise, real, detach=True)
        return F.softplus(torch.cat([-out[:8], out[8:]])).mean()

    def update(self, part):
        if part == self.how["lost"]:
            return
        optimizer = self.optimizers[part]
        if self.how["clip"] is not None:
            if self.scaler is not None:
                self.scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(getattr(self.model, part).parameters(), self.how["clip"])
        if self.scaler is None:
            optimizer.step()
        else:
            self.scaler.step(optimizer)


def reference(folder, **how):
    Job(folder / "ref.h5", specification=folder / "specification.json", **how)


def compared(folder):
    return run_ttrace("compare", folder / "ref.h5", folder / "run", timeout=120)


def audited(folder):
    specification = ["--specification", folder / "specification.json"]
    return run_ttrace("audit", folder / "run", *specification, timeout=120)


def train_rank(rank, out, how):
    Job(out, rank, RANKS, **how)


WAYS = {
    "in turns": {},
    "critic first": {"order": ("critic", "generator")},
    "equal sizes": {"equal": True},
    "equal sizes, critic first": {"equal": True, "order": ("critic", "generator")},
    "together": {"together": True},
    "one optimizer": {"together": True, "single": True},
    "clipped": {"clip": 0.05},
    "scaled": {"scaler": 1024.0},
    "scaled and clipped": {"scaler": 1024.0, "clip": 0.05},
    "one alone": {"lost": "generator"},
    "two steps": {"steps": 2},
}


@pytest.mark.parametrize("how", WAYS.values(), ids=WAYS)
def test_a_healthy_job_is_not_accused(tmp_path, how):
    reference(tmp_path, **how)
    specification = json.loads((tmp_path / "specification.json").read_text(encoding="utf-8"))
    schema = json.loads((SCHEMAS / "specification.schema.json").read_text(encoding="utf-8"))
    jsonschema_rs.Draft202012Validator(schema).validate(specification)
    run_ranks(RANKS, train_rank, tmp_path / "run", how)
    done = compared(tmp_path)
    assert done.returncode == MATCH, done.stdout + done.stderr
    assert "nothing unchecked" in done.stdout
    done = audited(tmp_path)
    assert done.returncode == MATCH, done.stdout + done.stderr


@pytest.mark.parametrize("how", [{}, {"equal": True}], ids=["in turns", "equal sizes"])
def test_gradients_that_the_other_left_are_named(tmp_path, how):
    reference(tmp_path, **how)
    run_ranks(RANKS, train_rank, tmp_path / "run", {**how, "leftovers": True})
    done = compared(tmp_path)
    assert done.returncode == DIVERGED, done.stdout + done.stderr
    assert "micro-batch 3 too, which is not in the reference's" in done.stdout
    done = audited(tmp_path)
    assert done.returncode == DIVERGED, done.stdout + done.stderr
    assert "critic" in done.stdout.splitlines()[0]


@pytest.mark.parametrize("lost", ["generator", "critic"])
def test_an_optimizer_that_makes_no_step_is_found(tmp_path, lost):
    reference(tmp_path)
    run_ranks(RANKS, train_rank, tmp_path / "run", {"lost": lost})
    done = compared(tmp_path)
    assert done.returncode == DIVERGED, done.stdout + done.stderr
    assert lost in done.stdout.splitlines()[0]
    done = audited(tmp_path)
    assert done.returncode == INCONCLUSIVE, done.stdout + done.stderr


def test_a_turn_without_a_number_is_not_accused(tmp_path):
    """The gradients of both turns are one raw gradient then, of which the critic takes a part."""
    reference(tmp_path, numbered=False)
    Job(tmp_path / "run", numbered=False)
    done = compared(tmp_path)
    assert done.returncode == MATCH, done.stdout + done.stderr
    done = audited(tmp_path)
    assert done.returncode != DIVERGED, done.stdout + done.stderr


def test_the_settings_are_those_of_each_turn(tmp_path):
    """An optimizer that makes no step has no entry; each entry has the parameters of its own."""
    Job(tmp_path / "both.h5")
    Job(tmp_path / "one.h5", lost="critic")
    both = Trace(tmp_path / "both.h5").manifest["optimizer"]
    assert [entry["params"][0].split(".")[0] for entry in both] == ["generator", "critic"]
    (one,) = Trace(tmp_path / "one.h5").manifest["optimizer"]
    assert all(name.startswith("generator.") for name in one["params"])
