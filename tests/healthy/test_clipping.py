"""Jobs that clip by torch's own functions, imported before anything is traced."""

import json

import pytest
import torch
from support.ttrace_cli import run_ttrace
from torch import nn
from torch.nn.utils import clip_grad_norm_

import ttrace_torch as tt

LIMIT = 0.1
TELL = "tell it with tracer.grad_norm(norm, clip_norm=...)"
OTHER = "gradients are clipped by value, by another norm"


def by_norm(parameters):
    return clip_grad_norm_(parameters, LIMIT)


def by_infinite_norm(parameters):
    clip_grad_norm_(parameters, LIMIT, norm_type=float("inf"))


def by_value(parameters):
    torch.nn.utils.clip_grad_value_(parameters, 0.001)


def one_by_one(parameters):
    for parameter in parameters:
        clip_grad_norm_(parameter, LIMIT)


def run_job(folder, clip, fault=None, specification=True, tell=False):
    """The report and exit code of `audit` on two steps; fault: done to the gradients before."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 8))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    tracer = tt.trace(
        model,
        optimizer,
        out=folder / "run.h5",
        specification=folder / "specification.json" if specification else None,
    )
    for number in range(2):
        x, labels = 10 * torch.randn(8, 16), torch.randint(8, (8,))
        with tracer.step(number):
            loss = nn.functional.cross_entropy(model(x), labels)
            tracer.loss(loss, labels=labels).backward()
            if fault is not None:
                fault(model)
            norm = clip(model.parameters())
            if tell:
                tracer.grad_norm(norm)
            optimizer.step()
            optimizer.zero_grad()
    tracer.close()
    flags = ("--specification", folder / "specification.json", "--json", folder / "report.json")
    done = run_ttrace("audit", folder / "run.h5", *flags)
    return done, json.loads((folder / "report.json").read_text(encoding="utf-8"))


def test_a_norm_is_enough_to_judge_updates(tmp_path):
    done, report = run_job(tmp_path, by_norm, tell=True)
    assert done.returncode == 0 and done.stdout.startswith("HOLDS  56 of 56"), done.stdout


def test_the_norm_of_all_gradients_need_not_be_told(tmp_path, capfd):
    done, _ = run_job(tmp_path, by_norm)
    assert done.returncode == 0 and done.stdout.startswith("HOLDS  54 of 54"), done.stdout
    said = capfd.readouterr().err
    assert TELL not in said and OTHER not in said


def test_each_parameter_may_be_clipped_by_its_own_norm(tmp_path, capfd):
    done, _ = run_job(tmp_path, one_by_one)
    assert done.returncode == 0 and done.stdout.startswith("HOLDS  54 of 54"), done.stdout
    assert "cannot be replayed" not in capfd.readouterr().err


def test_after_clipping_by_another_norm_gradients_hold_and_updates_are_not_judged(tmp_path, capfd):
    done, _ = run_job(tmp_path, by_infinite_norm)
    assert done.returncode == 3, done.stdout
    assert "nothing is broken, but the updates of 4 of 4 parameters were not judged" in done.stdout
    assert capfd.readouterr().err.count(OTHER) == 1


def test_after_clipping_by_value_updates_follow_by_their_formulas(tmp_path, capfd):
    done, _ = run_job(tmp_path, by_value)
    assert done.returncode == 0 and done.stdout.startswith("HOLDS  54 of 54"), done.stdout
    assert capfd.readouterr().err.count(OTHER) == 1


def scale(model):
    model[2].weight.grad *= 1.05


@pytest.mark.parametrize("clip", [by_norm, by_infinite_norm, by_value, one_by_one])
def test_a_wrong_gradient_is_found_all_the_same(tmp_path, clip):
    run_job(tmp_path, clip)
    done, report = run_job(tmp_path, clip, fault=scale, specification=False)
    assert done.returncode == 1, done.stdout
    assert report["findings"][0]["members"][0].split("/")[2:4] == ["main_grad", "2.weight"]


@pytest.mark.parametrize("tell", [True, False])
def test_a_clipping_that_does_nothing_is_found(tmp_path, tell):
    def without_effect(parameters):
        held = list(parameters)
        kept = [parameter.grad.clone() for parameter in held]
        norm = clip_grad_norm_(held, LIMIT)
        for parameter, gradient in zip(held, kept, strict=True):
            parameter.grad.copy_(gradient)
        return norm

    run_job(tmp_path, by_norm, tell=tell)
    done, report = run_job(tmp_path, without_effect, specification=False, tell=tell)
    assert done.returncode == 1, done.stdout
    assert report["findings"][0]["members"][0].split("/")[2] == "param_after_step"
