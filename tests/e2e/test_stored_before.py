"""What is stored before a step and computed by nobody in it is equal in every element, or one side
is the other, rounded: other checkpoints, other data, other states; and healthy runs beside them."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from support.reports import check_report
from support.ttrace_cli import DIVERGED, MATCH, run_ttrace
from torch import nn

import ttrace_torch as tt

BF16, FP32 = torch.bfloat16, torch.float32


class Model(nn.Module):
    """A small transformer that also takes floating-point weights of its tokens."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(64, 32)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(32, 2, 64, 0.0, batch_first=True) for _ in range(2)
        )
        self.head = nn.Linear(32, 64)

    def forward(self, ids, weights):
        hidden = self.embedding(ids) * weights.unsqueeze(-1)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.head(hidden)


def nothing(model, optimizer, inputs):
    pass


def another_weight(model, optimizer, inputs):
    with torch.no_grad():
        model.layers[0].linear1.weight.mul_(1.02)


def another_state(model, optimizer, inputs):
    for state in optimizer.state.values():
        state["exp_avg"].mul_(1.03)


def another_input(model, optimizer, inputs):
    inputs[1] += 0.02 * torch.rand(inputs[1].shape)


@dataclass(frozen=True)
class Job:
    """A traced step of the model in `dtype`, from weights that are `later` AdamW steps on.

    through: the type that the checkpoint was stored in. change: spoils what the step begins with.
    untraced: updates that the process makes before the step.
    factor, loss_in: what the loss is multiplied by and cast to where it is recorded.
    """

    dtype: torch.dtype = BF16
    later: int = 0
    through: torch.dtype | None = None
    resumed: bool = False
    untraced: int = 0
    seed: int | None = None
    autocast: bool = False
    factor: float = 1.0
    loss_in: torch.dtype | None = None
    change: Callable[[nn.Module, torch.optim.Optimizer, list[torch.Tensor]], None] = nothing

    def run(self, path: Path) -> Path:
        torch.manual_seed(0)
        model = Model()
        self._train(model, torch.optim.AdamW(model.parameters(), lr=1e-4), self.later)
        model.to(self.through or self.dtype).to(self.dtype)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        if self.resumed:
            earlier = torch.optim.AdamW(model.parameters(), lr=0.0)
            self._train(model, earlier, 2)
            optimizer.load_state_dict(earlier.state_dict())
            optimizer.param_groups[0]["lr"] = 1e-3
        inputs = self._inputs(1)
        self.change(model, optimizer, inputs)
        perturb = None if self.seed is None else tt.Perturb(seed=self.seed)
        tracer = tt.trace(model, optimizer, out=path, perturb=perturb)
        self._train(model, optimizer, self.untraced)
        with tracer.step(self.untraced):
            loss = self._loss(model, inputs)
            tracer.loss(torch.tensor(self.factor * loss.item(), dtype=self.loss_in or loss.dtype))
            loss.backward()
            optimizer.step()
        tracer.close()
        return path

    def _inputs(self, seed):
        generator = torch.Generator().manual_seed(seed)
        ids = torch.randint(0, 64, (4, 16), generator=generator)
        return [ids, torch.rand(4, 16, generator=generator).bfloat16().float()]

    def _loss(self, model, inputs):
        dtype = model.head.weight.dtype
        with torch.autocast("cpu", enabled=self.autocast):
            output = model(inputs[0], inputs[1].to(dtype))
            return nn.functional.cross_entropy(output.flatten(0, 1), inputs[0].flatten())

    def _train(self, model, optimizer, steps):
        for step in range(steps):
            self._loss(model, self._inputs(100 + step)).backward()
            optimizer.step()
            optimizer.zero_grad()


OTHERS = "the runs do not start from the same weights ("
PLAIN, AUTOCAST = Job(FP32), Job(FP32, autocast=True)
STORED = Job(FP32, through=BF16)
# Reference, candidate, and what the first line says.
LIES = {
    "three steps later": (Job(), Job(later=3), OTHERS),
    "ten steps later": (Job(), Job(later=10), OTHERS),
    "another checkpoint in bf16 against fp32": (PLAIN, Job(later=3), OTHERS),
    "another checkpoint under autocast": (AUTOCAST, Job(FP32, autocast=True, later=1), OTHERS),
    "a checkpoint stored in bf16": (
        PLAIN, STORED, "the candidate's weights are the reference's rounded to bf16 ("
    ),
    "a reference stored in bf16": (
        STORED, PLAIN, "the reference's weights are the candidate's rounded to bf16 ("
    ),
    "another checkpoint stored in bf16": (PLAIN, Job(FP32, through=BF16, later=3), OTHERS),
    "one weight": (Job(), Job(change=another_weight), "layers.0.linear1.weight"),
    "states": (Job(resumed=True), Job(resumed=True, change=another_state), "exp_avg"),
    "an input": (Job(), Job(change=another_input), "the runs were given other data"),
    "a loss in bf16, 2 % off": (PLAIN, Job(FP32, factor=1.02, loss_in=BF16), "the loss"),
    "a loss in bf16, 0.6 % off": (PLAIN, Job(FP32, factor=0.994, loss_in=BF16), "the loss"),
}  # fmt: skip
HEALTHY = {
    "in bf16": (Job(), Job(), "nothing unchecked"),
    "in fp32 and bf16": (PLAIN, Job(), ""),
    "in bf16 and fp32": (Job(), STORED, ""),
    "under autocast and in bf16": (AUTOCAST, Job(), ""),
    "under autocast": (AUTOCAST, AUTOCAST, ""),
    "resumed": (Job(resumed=True), Job(resumed=True), "nothing unchecked"),
    "recorded later": (
        Job(untraced=3), Job(untraced=3), "recorded after 3 updates: the start was not compared"
    ),
    "with a loss in bf16": (PLAIN, Job(FP32, loss_in=BF16), ""),
    "with both losses in bf16": (Job(FP32, loss_in=BF16), Job(FP32, loss_in=BF16), ""),
}  # fmt: skip


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """Runs a job once for each side."""
    folder, known = tmp_path_factory.mktemp("stored"), {}

    def run(job: Job, side: str) -> Path:
        if (job, side) not in known:
            known[job, side] = job.run(folder / f"{side}{len(known)}.h5")
        return known[job, side]

    return run


def compared(traced, reference, candidate, *more):
    paths = traced(reference, "ref"), traced(candidate, "run")
    written = paths[1].with_suffix(".json")
    done = run_ttrace("compare", *paths, *more, "--json", written, screen=True)
    report = json.loads(written.read_text())
    check_report(report)
    return done, report


@pytest.mark.parametrize("name", LIES)
def test_another_start_is_found_and_said(traced, name):
    reference, candidate, said = LIES[name]
    done, report = compared(traced, reference, candidate)
    assert (done.returncode, said in done.stdout.splitlines()[0]) == (DIVERGED, True), done.stdout
    if "rounded" in said:
        side = said.split("'")[0].removeprefix("the ")
        assert report["other_start"]["rounded"] == {"to": "bf16", "side": side}


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_start_matches(traced, name):
    reference, candidate, said = HEALTHY[name]
    done, _ = compared(traced, reference, candidate)
    assert (done.returncode, said in done.stdout.splitlines()[0]) == (MATCH, True), done.stdout


@pytest.mark.parametrize(
    ("reference", "candidate", "code"),
    [
        (Job(), Job(), MATCH),
        (PLAIN, Job(FP32, loss_in=BF16), MATCH),
        (PLAIN, STORED, DIVERGED),
        (Job(), Job(later=3), DIVERGED),
        (PLAIN, Job(FP32, factor=1.02, loss_in=BF16), DIVERGED),
    ],
)
def test_noise_runs_do_not_widen_it(traced, reference, candidate, code):
    runs = [traced(Job(reference.dtype, seed=seed), "noise") for seed in (1, 2, 3)]
    done, _ = compared(traced, reference, candidate, "--noise", *runs)
    assert done.returncode == code, done.stdout


def test_a_rule_widens_it_and_is_told(traced, tmp_path):
    rules = tmp_path / "tolerance.json"
    rule = {"name": "*", "kind": "param", "multiplier": 6}
    rules.write_text(json.dumps({"schema": "ttrace.tolerance/1", "rules": [rule], "tensors": []}))
    done, report = compared(traced, Job(), Job(later=3), "--tolerance", rules)
    assert not [one for one in report["findings"] if "/param/" in one["id"]]
    told = {one["name"]: one["text"] for one in report["coverage"]["remarks"]}
    assert told["start_by_policy"].startswith("27 stored before the step allowed to differ")


def test_the_doctor_says_the_same(traced):
    def weights(reference, candidate):
        paths = traced(reference, "ref"), traced(candidate, "run")
        lines = run_ttrace("doctor", *paths).stdout.splitlines()
        return next(line for line in lines if line[4:].startswith("weights"))

    assert OTHERS in weights(Job(), Job(later=3))
    assert "are the reference's rounded to bf16" in weights(PLAIN, STORED)
    assert weights(PLAIN, Job()).startswith("  ✓ weights")
    late = weights(Job(untraced=3), Job(untraced=3))
    assert late.startswith("  – weights") and "the start cannot be compared" in late
