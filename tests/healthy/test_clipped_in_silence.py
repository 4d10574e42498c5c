"""A job that clips its gradients by torch's own function and tells nobody the norm: its updates
are replayed by the norm of the recorded gradients, where these are all that was clipped."""

import json

import pytest
import torch
from answers import audited, compared
from torch import nn

import ttrace_torch as tt

SAID = "gradients were changed before the optimizer's step"


def run_job(
    path, limit, specification=None, told=False, seed=1, outside=False, after=None, kind="AdamW"
):
    """outside: a temperature that the model does not hold is clipped with the others.
    after: called with the model after its gradients were clipped."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 4))
    others = [nn.Parameter(torch.tensor(2.0))] if outside else []
    clipped = [*model.parameters(), *others]
    optimizer = getattr(torch.optim, kind)(clipped, lr=1e-2)
    tracer = tt.trace(model, optimizer, out=path, specification=specification)
    random = torch.Generator().manual_seed(seed)
    for number in range(2):
        with tracer.step(number):
            inputs, labels = torch.randn(8, 16, generator=random), torch.arange(8) % 4
            scores = model(inputs) * (others[0] if outside else 1)
            loss = nn.functional.cross_entropy(scores, labels)
            tracer.loss(loss, labels=labels).backward()
            norm = nn.utils.clip_grad_norm_(clipped, limit)
            if told:
                tracer.grad_norm(norm, clip_norm=limit)
            if after is not None:
                after(model)
            optimizer.step()
            optimizer.zero_grad()
    tracer.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clipped")
    run_job(folder / "reference.h5", 0.1, specification=folder / "specification.json")
    return folder


def not_judged(folder):
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return sum(report["coverage"].get("not_judged", {}).values())


@pytest.mark.parametrize("kind", ["AdamW", "SGD"])
def test_a_healthy_run_is_replayed(folder, capfd, kind):
    run_job(folder / "run.h5", 0.1, kind=kind)
    assert SAID not in capfd.readouterr().err
    answer = audited(folder)
    assert answer.code == 0 and answer.judged == answer.tensors, answer


def test_gradients_changed_after_they_were_clipped_are_found(folder):
    def change(model):
        model[2].weight.grad *= 0.9

    run_job(folder / "run.h5", 0.1, kind="SGD", after=change)
    answer = audited(folder)
    assert answer.code == 1 and answer.found == ["param_after_step 2.weight"], answer


def test_a_norm_of_other_gradients_too_is_asked_for(folder, capfd):
    run_job(folder / "run.h5", 0.1, outside=True)
    said = capfd.readouterr().err
    assert said.count(SAID) == 1 and "tracer.grad_norm(norm, clip_norm=...)" in said, said
    answer = audited(folder)
    # What cannot be judged is said: the updates of four parameters in two steps.
    assert not_judged(folder) >= 8, answer
    assert not any("param_after_step" in found for found in answer.found), answer


def test_another_limit_is_found(folder):
    run_job(folder / "run.h5", 0.05)
    answer = compared(folder)
    assert answer.code == 1, answer


def test_a_job_that_tells_keeps_its_check(folder, capfd):
    run_job(folder / "run.h5", 0.1, told=True)
    assert SAID not in capfd.readouterr().err
    answer = audited(folder)
    assert answer.code == 0 and answer.judged == answer.tensors, answer
