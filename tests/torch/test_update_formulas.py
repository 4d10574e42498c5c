"""Updates of optimizers whose rule nobody has written down: the reference's operations are it."""

from __future__ import annotations

import json

import pytest
import torch
from support.ttrace_cli import run_ttrace
from torch import nn

import ttrace_torch as tt

INCONCLUSIVE, DIVERGED = 3, 1


class Orthogonal(torch.optim.Optimizer):
    """Momentum, orthogonalised by five Newton-Schulz iterations; a plain step for vectors."""

    def __init__(self, params, lr=0.02, momentum=0.9, fault=""):
        super().__init__(params, {"lr": lr, "momentum": momentum})
        self.fault = fault

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                buffer = self.state[p].setdefault("momentum_buffer", torch.zeros_like(p))
                buffer.mul_(group["momentum"]).add_(p.grad)
                parts = buffer.chunk(2) if self.fault == "by shard" and p.dim() == 2 else [buffer]
                made = [orthogonal(x) if x.dim() == 2 else 0.1 * x for x in parts]
                times = 1.1 if self.fault == "longer" else 1.0
                p.sub_(times * group["lr"] * torch.cat(made))


def orthogonal(x):
    flip = x.shape[0] > x.shape[1]
    x = x.T if flip else x
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
    return x.T if flip else x


MADE = {
    "orthogonal": Orthogonal,
    "adafactor": lambda p: torch.optim.Adafactor(p, lr=1e-2),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=1e-2),
    "radam": lambda p: torch.optim.RAdam(p, lr=1e-2),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1e-2, momentum=0.9, centered=True),
    "nadam": lambda p: torch.optim.NAdam(p, lr=1e-2, foreach=False),
    "adamax": lambda p: torch.optim.Adamax(p, lr=1e-2),
    "adadelta": lambda p: torch.optim.Adadelta(p, lr=1.0),
    "asgd": lambda p: torch.optim.ASGD(p, lr=1e-2),
}


def net(dtype=torch.float32):
    torch.manual_seed(1)
    layers = nn.Linear(6, 16), nn.Tanh(), nn.LayerNorm(16), nn.Linear(16, 16), nn.Linear(16, 3)
    return nn.Sequential(*layers).to(dtype)


def train(
    out, make, steps=1, clip=None, first=0, dtype=torch.float32, by_value=None, scale=1.0, **options
):
    model = net(dtype)
    optimizer = make(model.parameters())
    specification = out.with_suffix(".json") if options.pop("specify", False) else None
    traced = range(first, steps)
    with tt.trace(
        model, optimizer, out=out, specification=specification, steps=traced, **options
    ) as tracer:
        for step in range(steps):
            with tracer.step(step):
                x = (
                    torch.randn(32, 6, generator=torch.Generator().manual_seed(step)).to(dtype)
                    * scale
                )
                tracer.loss(model(x).float().square().mean()).backward()
                if clip is not None:
                    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
                    tracer.grad_norm(norm, clip_norm=clip)
                if by_value is not None:
                    torch.nn.utils.clip_grad_value_(model.parameters(), by_value)
                optimizer.step()
                optimizer.zero_grad()
    return out


def audited(run, specification):
    path = run.with_suffix(".audit.json")
    done = run_ttrace("audit", run, "--specification", specification, "--json", path)
    return done, json.loads(path.read_text())


def updates_of(report):
    return [one for one in report["results"] if one["key"]["kind"] == "param_after_step"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", sorted(MADE))
def test_healthy_updates_hold_in_the_first_step_and_in_a_later_one(tmp_path, name, dtype):
    for first in (0, 2):
        run = tmp_path / f"run{first}.h5"
        train(run, MADE[name], first + 1, first=first, dtype=dtype, specify=True)
        done, report = audited(run, run.with_suffix(".json"))
        assert done.stdout.startswith("HOLDS"), done.stdout
        judged = [one for one in updates_of(report) if one["outcome"] == "holds"]
        assert len(judged) == len(updates_of(report)) == 8, done.stdout


@pytest.mark.parametrize("fault", ["by shard", "longer"])
def test_an_update_by_another_rule_is_broken(tmp_path, fault):
    reference = train(tmp_path / "ref.h5", Orthogonal, specify=True)
    run = train(tmp_path / "run.h5", lambda p: Orthogonal(p, fault=fault))
    done, report = audited(run, reference.with_suffix(".json"))
    assert done.returncode == DIVERGED, done.stdout
    broken = [one for one in updates_of(report) if one["outcome"] == "broken"]
    assert {one["key"]["name"] for one in broken} >= {"0.weight", "3.weight"}, done.stdout


def test_clipped_gradients_are_followed_by_the_recorded_norm(tmp_path):
    reference = train(tmp_path / "ref.h5", MADE["rmsprop"], clip=0.01, specify=True)
    done, _ = audited(reference, reference.with_suffix(".json"))
    assert done.stdout.startswith("HOLDS"), done.stdout


@pytest.mark.parametrize("make", [MADE["rmsprop"], torch.optim.AdamW, torch.optim.SGD])
def test_gradients_that_are_clipped_by_value_are_followed(tmp_path, make):
    reference = train(tmp_path / "ref.h5", make, by_value=0.01, specify=True)
    done, report = audited(reference, reference.with_suffix(".json"))
    assert done.stdout.startswith("HOLDS"), done.stdout
    assert all(one["outcome"] == "holds" for one in updates_of(report)), done.stdout
    if make is not torch.optim.AdamW:  # whose first step has the size of its learning rate
        other = train(tmp_path / "run.h5", make, by_value=0.02)
        done, _ = audited(other, reference.with_suffix(".json"))
        assert done.returncode == DIVERGED, done.stdout


def test_every_traced_step_is_followed(tmp_path):
    reference = train(tmp_path / "ref.h5", MADE["orthogonal"], 3, specify=True)
    done, report = audited(reference, reference.with_suffix(".json"))
    assert done.stdout.startswith("HOLDS"), done.stdout
    assert len(updates_of(report)) == 24
    assert all(one["outcome"] == "holds" for one in updates_of(report)), done.stdout


def test_other_settings_or_another_step_leave_the_updates_unjudged(tmp_path):
    specification = train(tmp_path / "ref.h5", MADE["rmsprop"], specify=True).with_suffix(".json")
    other = train(tmp_path / "other.h5", lambda p: torch.optim.RMSprop(p, lr=2e-2, momentum=0.9))
    done, report = audited(other, specification)
    assert done.returncode == INCONCLUSIVE, done.stdout
    assert all("other settings" in one["reason"] for one in updates_of(report))
    later = train(tmp_path / "later.h5", MADE["rmsprop"], 2, first=1)
    done, report = audited(later, specification)
    assert all("no update of step 1" in one["reason"] for one in updates_of(report)), done.stdout


def edited(path, edit):
    """A copy of a specification, changed by `edit`."""
    found = json.loads(path.read_text())
    edit(found["updates"][0])
    changed = path.with_name("edited.json")
    changed.write_text(json.dumps(found))
    return changed


def same_as_before(found):
    """Says that every parameter stays as it is."""
    numbers = {(one["kind"], one["name"]): n for n, one in enumerate(found["tensors"])}
    for one in found["tensors"]:
        if one["kind"] == "param_after_step":
            one.pop("pattern", None)
            one.pop("from", None)
            one["same"] = numbers["param", one["name"]]


def without_settings(found):
    found["settings"] = []


def of_another_type(found):
    found["settings"][0]["type"] = "adamw"


def of_another_step(found):
    found["step"] = 7


def without_formulas(found):
    found["tensors"] = [one for one in found["tensors"] if one["kind"] != "param_after_step"]


@pytest.fixture(scope="module")
def honest_and_frozen(tmp_path_factory):
    """A reference with its specification, and a run whose updates change nothing."""
    folder = tmp_path_factory.mktemp("lies")
    reference = train(folder / "ref.h5", MADE["rmsprop"], specify=True)
    return reference, train(folder / "run.h5", lambda p: torch.optim.RMSprop(p, lr=0.0))


@pytest.mark.parametrize(
    "lie",
    [same_as_before, without_settings, of_another_type, of_another_step, without_formulas],
)
def test_a_specification_that_lies_about_updates_lets_none_hold(honest_and_frozen, lie):
    specification = edited(honest_and_frozen[0].with_suffix(".json"), lie)
    for run in honest_and_frozen:
        done, _ = audited(run, specification)
        assert not done.stdout.startswith("HOLDS"), done.stdout


class Trusting(torch.optim.Optimizer):
    """LAMB without moments: the step has the size of the parameter, decay included."""

    def __init__(self, params, decay=0.1):
        super().__init__(params, {"lr": 0.01})
        self.decay = decay

    @torch.no_grad()
    def step(self):
        for p in self.param_groups[0]["params"]:
            update = p.grad / (p.grad.abs() + 1e-3) + self.decay * p
            p.sub_(0.01 * (p.norm() / update.norm() if p.norm() > 0 else 1.0) * update)


def test_a_spread_difference_far_beyond_the_noise_runs_diverges(tmp_path):
    reference = train(tmp_path / "ref.h5", Trusting)
    noise = [train(tmp_path / f"n{s}.h5", Trusting, perturb=tt.Perturb(s)) for s in (1, 2, 3)]
    run = train(tmp_path / "run.h5", lambda p: Trusting(p, decay=0.05))
    done = run_ttrace("compare", reference, run, "--noise", *noise)
    assert done.returncode == DIVERGED, done.stdout
    assert "far beyond what rounding makes in the noise runs" in done.stdout, done.stdout
    healthy = train(tmp_path / "healthy.h5", Trusting, perturb=tt.Perturb(4))
    done = run_ttrace("compare", reference, healthy, "--noise", *noise)
    assert done.returncode == 0, done.stdout


class Reading(torch.optim.Optimizer):
    """A step of the size of the parameter, by norms that it reads as Python numbers."""

    def __init__(self, params, part=1):
        super().__init__(params, {"lr": 0.01})
        self.part = part

    @torch.no_grad()
    def step(self):
        for p in self.param_groups[0]["params"]:
            norm = p.grad[: max(1, len(p) // self.part)].norm().item()
            p.sub_(0.01 * p.norm().item() / (norm + 1e-6) * p.grad)


def test_numbers_that_an_optimizer_reads_hold_where_they_are_the_same(tmp_path):
    reference = train(tmp_path / "ref.h5", Reading, specify=True)
    specification = reference.with_suffix(".json")
    done, _ = audited(reference, specification)
    assert done.stdout.startswith("HOLDS"), done.stdout
    of_half = train(tmp_path / "half.h5", lambda p: Reading(p, 2))
    assert audited(of_half, specification)[0].returncode == DIVERGED
    other = train(tmp_path / "other.h5", Reading, scale=3.0)
    done, report = audited(other, specification)
    assert done.returncode == INCONCLUSIVE, done.stdout
    assert any("read other numbers" in one["reason"] for one in updates_of(report)), done.stdout


class Normalized(torch.optim.SGD):
    """Steps of one length, whatever the gradient's is. times: a fault in the length."""

    times = 1.0

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(group["lr"] * p.grad / (self.times * p.grad.norm()))


def train_large(out, times, specification=None):
    torch.manual_seed(0)
    model = nn.Linear(2304, 1024, bias=False)
    nn.init.zeros_(model.weight)  # so that its own rounding hides nothing of the step
    optimizer = Normalized(model.parameters(), lr=1.0)
    optimizer.times = times
    kinds = ("param", "main_grad", "param_after_step")
    with (
        tt.trace(model, optimizer, out=out, specification=specification, kinds=kinds) as tracer,
        tracer.step(0),
    ):
        tracer.loss((model(torch.randn(64, 2304)) * torch.randn(64, 1024)).sum()).backward()
        optimizer.step()


def test_a_norm_of_millions_of_elements_has_its_kernels_rounding_and_no_more(tmp_path):
    """torch adds it up in a few lanes, and is off by hundreds of units in the last place."""
    train_large(tmp_path / "ref.h5", 1.0, tmp_path / "ref.json")
    train_large(tmp_path / "run.h5", 1.001)
    for name, outcome in (("ref", "holds"), ("run", "broken")):
        _, report = audited(tmp_path / f"{name}.h5", tmp_path / "ref.json")
        (update,) = updates_of(report)
        assert update["outcome"] == outcome, update
