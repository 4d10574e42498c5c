"""Losses that a script multiplies by a weight of their micro-batch, such as its share of tokens."""

import torch
from answers import audited, compared
from torch import nn

import ttrace_torch as tt

COUNTS = (3, 5)


class ScaledBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 1.05


def run_job(folder, out, counts=COUNTS, wrong=1.0, forgotten=False, specification=None):
    """counts: tokens of the micro-batches. wrong: what the last one's weight is off by. forgotten:
    whether the model's gradient is scaled once more, behind the loss."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tracer = tt.trace(model, optimizer, out=folder / out, specification=specification)
    generator = torch.Generator().manual_seed(1)
    with tracer.step(0):
        for count in counts:
            x = torch.randn(6, 8, generator=generator)
            labels = torch.randint(4, (6,), generator=generator)
            labels[count:] = -100
            logits = model(x)
            if forgotten:
                logits = ScaledBackward.apply(logits)
            loss = tracer.loss(nn.functional.cross_entropy(logits, labels), labels=labels)
            weight = count / sum(counts) * (wrong if count == counts[-1] else 1)
            (loss * weight).backward()
        optimizer.step()
    tracer.close()


def test_healthy_runs_hold_with_any_counts(tmp_path):
    run_job(tmp_path, "reference.h5", specification=tmp_path / "specification.json")
    run_job(tmp_path, "run.h5")
    assert compared(tmp_path).code == 0
    run_job(tmp_path, "other.h5", counts=(2, 6))
    for run in ("run.h5", "other.h5"):
        answer = audited(tmp_path, run)
        assert answer.code == 0 and answer.judged == answer.tensors, answer
        assert "the factors of 2 losses are given" in answer.line


def test_wrong_weight_differs_from_the_reference(tmp_path):
    run_job(tmp_path, "reference.h5")
    run_job(tmp_path, "run.h5", wrong=1.05)
    answer = compared(tmp_path)
    assert answer.code == 1 and answer.found == ["grad_output loss"], answer


def test_gradient_that_is_scaled_behind_the_loss_is_broken(tmp_path):
    run_job(tmp_path, "reference.h5", specification=tmp_path / "specification.json")
    run_job(tmp_path, "run.h5", forgotten=True)
    answer = audited(tmp_path)
    assert answer.code == 1 and answer.found[0] == "grad_output 2", answer


def test_an_audit_says_how_many_times_a_loss_is_what_it_should_be(tmp_path):
    even = (4, 4)
    run_job(tmp_path, "reference.h5", even, specification=tmp_path / "specification.json")
    run_job(tmp_path, "run.h5", even, wrong=2.0)
    answer = audited(tmp_path)
    assert answer.code == 1 and "the gradient of the loss is 2 times" in answer.line, answer
