"""A job that records its gradients, clips them, and tells nobody the norm: its updates do not
follow from what was recorded, and that is no fault of the job."""

import json

import pytest
import torch
from answers import audited, compared
from torch import nn

import ttrace_torch as tt

SAID = "gradients were changed before the optimizer's step"


def run_job(path, limit, specification=None, told=False, seed=1):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    tracer = tt.trace(model, optimizer, out=path, specification=specification)
    random = torch.Generator().manual_seed(seed)
    for number in range(2):
        with tracer.step(number):
            inputs, labels = torch.randn(8, 16, generator=random), torch.arange(8) % 4
            loss = nn.functional.cross_entropy(model(inputs), labels)
            tracer.loss(loss, labels=labels).backward()
            tracer.main_grads()
            norm = nn.utils.clip_grad_norm_(model.parameters(), limit)
            if told:
                tracer.grad_norm(norm, clip_norm=limit)
            optimizer.step()
            optimizer.zero_grad()
    tracer.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clipped")
    run_job(folder / "reference.h5", 0.1, specification=folder / "specification.json")
    return folder


def test_a_healthy_run_is_not_accused(folder, capfd):
    run_job(folder / "run.h5", 0.1)
    said = capfd.readouterr().err
    assert said.count(SAID) == 1 and "tracer.grad_norm(norm, clip_norm=...)" in said, said
    answer = audited(folder)
    assert answer.code == 0 and not answer.found, answer
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    # What cannot be judged is said: the updates of four parameters in two steps.
    assert sum(report["coverage"]["not_judged"].values()) == 8, report["coverage"]
    answer = compared(folder)
    assert answer.code == 0, answer


def test_another_limit_is_found(folder):
    run_job(folder / "run.h5", 0.05)
    answer = compared(folder)
    assert answer.code == 1, answer


def test_a_job_that_tells_keeps_its_check(folder, capfd):
    run_job(folder / "run.h5", 0.1, told=True)
    assert SAID not in capfd.readouterr().err
    answer = audited(folder)
    assert answer.code == 0 and answer.judged == answer.tensors, answer
