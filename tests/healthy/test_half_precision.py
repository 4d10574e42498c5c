"""Gradients near the smallest numbers of fp16: a run without a GradScaler rounds them to steps of
2^-24, and a run with one does not, although both store them in float32."""

import json

import pytest
import torch
from support.reports import findings
from support.ttrace_cli import run_ttrace
from torch import nn

import ttrace_torch as tt

WIDTH = 64
STEP = 2.0**-24
NOISE = [f"noise{seed}.h5" for seed in (1, 2, 3)]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.up = nn.Linear(16, WIDTH)
        self.middle = nn.Linear(WIDTH, WIDTH)
        self.down = nn.Linear(WIDTH, 4)

    def forward(self, x):
        return self.down(torch.tanh(self.middle(torch.tanh(self.up(x)))))


def run_job(path, scale=None, seed=None, weight=0.006, wrong=0.0):
    """scale: of the GradScaler, if there is one. seed: of a noise run. weight: of the loss. wrong:
    what is added to an element of a gradient, before it is divided by the scale."""
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", enabled=scale is not None, init_scale=scale or 1.0)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(64, 16, generator=generator)
    labels = torch.randint(4, (64,), generator=generator)
    if wrong:
        change = torch.zeros(WIDTH, WIDTH)
        change[3, 5] = wrong * (scale or 1.0)
        model.middle.weight.register_hook(lambda gradient: gradient + change)
    noise = {} if seed is None else {"perturb": tt.Perturb(seed)}
    tracer = tt.trace(model, optimizer, out=path, scaler=scaler if scale else None, **noise)
    with tracer.step(0):
        with torch.autocast("cpu", torch.float16):
            logits = model(x)
        loss = tracer.loss(nn.functional.cross_entropy(logits.float(), labels), labels=labels)
        scaler.scale(loss * weight).backward()
        scaler.step(optimizer)
        scaler.update()
    tracer.close()


def run_reference(folder):
    """Its gradients are some hundred steps of fp16 at most."""
    run_job(folder / "reference.h5")
    for seed, name in enumerate(NOISE, 1):
        run_job(folder / name, seed=seed)


def compared(folder):
    """The exit code, and the findings of raw gradients by name."""
    noise = [folder / name for name in NOISE]
    report = folder / "report.json"
    done = run_ttrace(
        "compare", folder / "reference.h5", folder / "run.h5", "--noise", *noise, "--json", report
    )
    found = findings(json.loads(report.read_text(encoding="utf-8")))
    return done.returncode, [one["id"].split("/")[3] for one in found if "param_grad" in one["id"]]


@pytest.mark.parametrize("scale", [None, 1024.0, 65536.0])
def test_scaled_run_meets_one_without_a_scaler(tmp_path, scale):
    run_reference(tmp_path)
    run_job(tmp_path / "run.h5", scale=scale)
    assert compared(tmp_path) == (0, [])


@pytest.mark.parametrize("scale", [None, 65536.0])
def test_wrong_element_is_found_where_it_is_some_steps_off(tmp_path, scale):
    run_reference(tmp_path)
    run_job(tmp_path / "run.h5", scale=scale, wrong=40 * STEP)
    assert compared(tmp_path) == (1, ["middle.weight"])
