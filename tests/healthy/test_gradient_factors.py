"""Gradients that a script divides by how many tokens all micro-batches had, known at the end."""

import pytest
import torch
from answers import audited, compared
from torch import nn

import ttrace_torch as tt

SIZE = 6


def run_job(
    folder, out, way, *, counts=(3, 5), seed=1, wrong=1.0, lie=1.0, said=True, clipped=False
):
    """way: whether the number is one of Python's, or a tensor that adds up counts of labels.
    wrong: the gradients are divided by this too. lie: the script multiplies the factor that it
    records by this. said: whether the script records the factor."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    path = folder / "specification.json" if out == "reference.h5" else None
    tracer = tt.trace(model, optimizer, out=folder / out, specification=path)
    generator = torch.Generator().manual_seed(seed)
    with tracer.step(0):
        tokens = torch.zeros((), dtype=torch.int64) if way == "tensor" else 0
        for count in counts:
            x = torch.randn(SIZE, 8, generator=generator)
            labels = torch.randint(4, (SIZE,), generator=generator)
            labels[count:] = -100
            loss = nn.functional.cross_entropy(model(x), labels, reduction="sum")
            tracer.loss(loss, labels=labels).backward()
            tokens = tokens + ((labels != -100).sum() if way == "tensor" else count)
        for parameter in model.parameters():
            parameter.grad.div_(tokens * wrong)
        if said:
            tracer.main_grads(factor=lie / tokens)
        else:
            tracer.main_grads()
        if clipped:
            norm = nn.utils.clip_grad_norm_(model.parameters(), 0.01)
            tracer.grad_norm(norm, clip_norm=0.01)
        optimizer.step()
    tracer.close()


@pytest.mark.parametrize("clipped", [False, True])
@pytest.mark.parametrize("way", ["number", "tensor"])
def test_healthy_runs_hold_with_other_counts(tmp_path, way, clipped):
    run_job(tmp_path, "reference.h5", way, clipped=clipped)
    run_job(tmp_path, "run.h5", way, clipped=clipped)
    assert compared(tmp_path).code == 0
    run_job(tmp_path, "other.h5", way, counts=(2, 5), seed=2, clipped=clipped)
    for run in ("run.h5", "other.h5"):
        answer = audited(tmp_path, run)
        assert answer.code == 0 and answer.judged == answer.tensors, answer
        assert "the factor of the main gradients is given" in answer.line


@pytest.mark.parametrize("way", ["number", "tensor"])
def test_gradients_that_were_divided_by_another_number_are_broken(tmp_path, way):
    run_job(tmp_path, "reference.h5", way)
    run_job(tmp_path, "run.h5", way, wrong=1.05)
    answer = audited(tmp_path)
    assert answer.code == 1 and answer.found[0].startswith("main_grad "), answer
    answer = compared(tmp_path)
    assert answer.code == 1 and answer.found[0].startswith("main_grad "), answer


def test_another_number_differs_from_the_reference(tmp_path):
    run_job(tmp_path, "reference.h5", "number")
    run_job(tmp_path, "run.h5", "number", lie=1.05)
    answer = compared(tmp_path)
    assert answer.code == 1 and "scalar main_grad.factor" in answer.found, answer


def test_run_that_does_not_say_its_factor_is_not_judged_by_a_guess(tmp_path):
    run_job(tmp_path, "reference.h5", "tensor")
    run_job(tmp_path, "run.h5", "tensor", said=False)
    answer = audited(tmp_path)
    assert answer.code == 3 and not answer.found, answer


def test_number_of_the_data_is_no_clipping(tmp_path):
    run_job(tmp_path, "reference.h5", "tensor", said=False)
    run_job(tmp_path, "run.h5", "tensor", said=False)
    answer = audited(tmp_path)
    assert answer.code == 3 and not answer.found, answer
