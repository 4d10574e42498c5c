"""A loss that a job records without its gradient: detached, or after its backward."""

import pytest
import torch
from answers import audited, compared
from torch import nn

import ttrace_torch as tt

MICROBATCHES = 2


def run_job(folder, out, recorded, weights=(1.0, 1.0)):
    """recorded: how the loss is: "whole", "detached" or "late"."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tracer = tt.trace(
        model, optimizer, out=folder / out, specification=folder / f"{recorded}.json", steps=[0]
    )
    generator = torch.Generator().manual_seed(1)
    with tracer.step(0):
        for weight in weights:
            x = torch.randn(6, 8, generator=generator)
            labels = torch.randint(4, (6,), generator=generator)
            loss = nn.functional.cross_entropy(model(x), labels)
            if recorded != "late":
                told = loss.detach() if recorded == "detached" else loss
                tracer.loss(told, labels=labels)
            (loss * weight / MICROBATCHES).backward()
            if recorded == "late":
                tracer.loss(loss, labels=labels)
        optimizer.step()
    tracer.close()


@pytest.mark.parametrize("recorded", ["detached", "late"])
def test_healthy_runs_match(tmp_path, recorded):
    run_job(tmp_path, "reference.h5", "whole")
    run_job(tmp_path, "run.h5", recorded)
    for run, reference in (("run.h5", "reference.h5"), ("reference.h5", "run.h5")):
        answer = compared(tmp_path, run, reference)
        assert answer.code == 0, answer
    answer = audited(tmp_path, specification="whole.json")
    assert answer.code == 0 and answer.judged == answer.tensors, answer


@pytest.mark.parametrize("recorded", ["detached", "late"])
def test_wrong_weight_of_a_micro_batch_is_found(tmp_path, recorded):
    run_job(tmp_path, "reference.h5", "whole")
    run_job(tmp_path, "run.h5", recorded, weights=(1.0, 1.05))
    answer = compared(tmp_path)
    assert answer.code == 1 and answer.found[0].startswith("grad_output"), answer
    assert audited(tmp_path, specification="whole.json").code == 1
