"""Numbers inside a recorded loss: a sum over tokens divided by how many this micro-batch has."""

import pytest
import torch
from answers import audited, compared
from support.long_cases import chosen
from torch import nn

import ttrace_torch as tt

SIZE = 6
COUNTS = (3, 5)


def by_number(logits, labels, count, wrong):
    return total(logits, labels) / (count * wrong)


def by_read_number(logits, labels, count, wrong):
    return total(logits, labels) / (wrong * (labels != -100).sum().item())


def by_reciprocal(logits, labels, count, wrong):
    return 1 / (count * wrong) * total(logits, labels).double()


def by_tensor_from_outside(logits, labels, count, wrong):
    return total(logits, labels) / torch.tensor(count * wrong)


def by_share(logits, labels, count, wrong):
    return nn.functional.cross_entropy(logits, labels) * (count / 8 / wrong)


def by_counted_labels(logits, labels, count, wrong):
    return total(logits, labels) / (wrong * (labels != -100).sum())


def by_mask(logits, labels, count, wrong):
    mask = (labels != -100).float()
    losses = nn.functional.cross_entropy(logits, labels, reduction="none")
    return (losses * mask).sum() / mask.sum() / wrong


def by_microbatches(logits, labels, count, wrong):
    return nn.functional.cross_entropy(logits, labels) / (2 * wrong)


def total(logits, labels):
    return nn.functional.cross_entropy(logits, labels, reduction="sum")


# Factors that only the script knows, and those that the specification says.
GIVEN = [by_number, by_read_number, by_reciprocal, by_tensor_from_outside, by_share]
SPECIFIED = [by_counted_labels, by_mask, by_microbatches]
# Loss, and whether the model computes it: one of each kind and every loss, and the others.
CASES = chosen(
    "losses that a model computes",
    [(GIVEN[0], True), (SPECIFIED[0], True), *((loss, False) for loss in [*GIVEN, *SPECIFIED])],
    [(loss, True) for loss in [*GIVEN[1:], *SPECIFIED[1:]]],
)


class Model(nn.Module):
    """Returns its loss, as models of transformers do, if it is given one to compute."""

    def __init__(self, loss, inside):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
        self._loss, self._inside = loss, inside

    def forward(self, x, labels, count, wrong):
        logits = self.layers(x)
        return self._loss(logits, labels, count, wrong) if self._inside else logits


class ScaledBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 1.05


def run_job(folder, out, loss, *, counts=COUNTS, seed=1, wrong=1.0, scaled=False, inside=False):
    """counts: tokens of the micro-batches. wrong: what the last one's number is off by. lost:
    whether the gradient of the logits is scaled once more, behind the factor."""
    model = Model(loss, inside)
    if scaled:
        model.layers[2].register_forward_hook(lambda *x: ScaledBackward.apply(x[-1]))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    path = folder / "specification.json" if out == "reference.h5" else None
    tracer = tt.trace(model, optimizer, out=folder / out, specification=path)
    generator = torch.Generator().manual_seed(seed)
    with tracer.step(0):
        for turn, count in enumerate(counts):
            x = torch.randn(SIZE, 8, generator=generator)
            labels = torch.randint(4, (SIZE,), generator=generator)
            labels[count:] = -100
            off = wrong if turn == len(counts) - 1 else 1
            found = model(x, labels, count, off)
            found = found if inside else loss(found, labels, count, off)
            tracer.loss(found, labels=labels).backward()
        optimizer.step()
    tracer.close()


@pytest.mark.parametrize(("loss", "inside"), CASES)
def test_healthy_runs_hold_with_other_counts(tmp_path, loss, inside):
    run_job(tmp_path, "reference.h5", loss, inside=inside)
    run_job(tmp_path, "run.h5", loss, inside=inside)
    assert compared(tmp_path).code == 0
    run_job(tmp_path, "other.h5", loss, counts=(2, 6), seed=2, inside=inside)
    for run in ("run.h5", "other.h5"):
        answer = audited(tmp_path, run)
        assert answer.code == 0 and answer.judged == answer.tensors, answer
        assert ("the factors of 2 losses are given" in answer.line) == (loss in GIVEN)


@pytest.mark.parametrize(("loss", "inside"), CASES)
def test_wrong_number_and_scaled_gradient_are_found(tmp_path, loss, inside):
    run_job(tmp_path, "reference.h5", loss, inside=inside)
    run_job(tmp_path, "run.h5", loss, wrong=1.05, inside=inside)
    answer = compared(tmp_path)
    # What the model returns comes first.
    first = "output (model)" if inside else "scalar loss.factor"
    assert answer.code == 1 and first in answer.found, answer
    if loss in SPECIFIED:
        assert audited(tmp_path).found == ["scalar loss.factor"]
    run_job(tmp_path, "run.h5", loss, scaled=True, inside=inside)
    answer = audited(tmp_path)
    assert answer.code == 1 and answer.found[0] == "grad_output layers.2", answer


def swapped(loss):
    """The fault: each of the two micro-batches has the number of the other one."""

    def of_other(logits, labels, count, wrong):
        return loss(logits, labels, count, (sum(COUNTS) - count) / count)

    return of_other


def lost(loss):
    """The fault: the last micro-batch is multiplied by nothing."""

    def without(logits, labels, count, wrong):
        found = loss(logits, labels, count, wrong)
        return total(logits, labels).to(found.dtype) if count == COUNTS[-1] else found

    return without


@pytest.mark.parametrize(("loss", "inside"), CASES)
def test_swapped_numbers_are_found(tmp_path, loss, inside):
    run_job(tmp_path, "reference.h5", loss, inside=inside)
    run_job(tmp_path, "run.h5", swapped(loss), inside=inside)
    answer = compared(tmp_path)
    first = "output (model)" if inside else "scalar loss.factor"
    assert answer.code == 1 and answer.found.count(first) == 2, answer
    answer = audited(tmp_path)
    if loss in SPECIFIED:
        assert answer.code == 1 and answer.found == ["scalar loss.factor"], answer
    else:
        # Only the reference knows whose number is which. The first line says so.
        assert answer.code == 0 and "the factors of 2 losses are given" in answer.line, answer


@pytest.mark.parametrize(("loss", "inside"), CASES)
def test_number_that_one_microbatch_lost_is_found(tmp_path, loss, inside):
    run_job(tmp_path, "reference.h5", loss, inside=inside)
    run_job(tmp_path, "run.h5", lost(loss), inside=inside)
    answer = compared(tmp_path)
    assert answer.code == 1 and answer.found[0] == ("output (model)" if inside else "loss loss")
    answer = audited(tmp_path)
    assert answer.code == (1 if loss in SPECIFIED else 3), answer


@pytest.mark.parametrize("tokens", [37, 41])
def test_one_microbatch_is_no_reason_to_take_a_count_for_a_constant(tmp_path, tokens):
    run_job(tmp_path, "reference.h5", by_number, counts=(3,))
    run_job(tmp_path, "run.h5", by_number, counts=(tokens,), seed=2)
    answer = audited(tmp_path)
    assert answer.code == 0 and answer.judged == answer.tensors, answer
    assert "the factor of 1 loss is given" in answer.line


def test_losses_that_agree_excuse_factors_of_other_terms(tmp_path):
    run_job(tmp_path, "reference.h5", by_number, counts=(3, 3))
    for loss in (by_mean_of_weighted, nn_mean):
        run_job(tmp_path, "run.h5", loss, counts=(3, 3))
        answer = compared(tmp_path)
        assert answer.code == 0, answer


def by_mean_of_weighted(logits, labels, count, wrong):
    losses = nn.functional.cross_entropy(logits, labels, reduction="none")
    return losses.mean() * (SIZE / count)


def nn_mean(logits, labels, count, wrong):
    return nn.functional.cross_entropy(logits, labels)


# Tokens of four micro-batches, of which each divides by those of an average one.
OF_STEP = ((3, 5, 2, 4), (1, 6, 5, 3))


def by_tokens_of_step(counts):
    def loss(logits, labels, count, wrong):
        return total(logits, labels) / (wrong * sum(counts) / len(counts))

    return loss


def by_own_tokens(counts):
    """The fault: a mean of means over unequal numbers of tokens."""
    return by_number


def test_number_of_the_step_may_be_another_one_but_must_be_common(tmp_path):
    run_job(tmp_path, "reference.h5", by_tokens_of_step(OF_STEP[0]), counts=OF_STEP[0])
    for seed, counts in enumerate(OF_STEP):
        run_job(tmp_path, "run.h5", by_tokens_of_step(counts), counts=counts, seed=seed)
        answer = audited(tmp_path)
        assert answer.code == 0 and answer.judged == answer.tensors, answer
        assert "the factors of 4 losses are given" in answer.line
    for wrong, loss in ((1.05, by_tokens_of_step), (1.0, by_own_tokens)):
        run_job(tmp_path, "run.h5", loss(counts), counts=counts, wrong=wrong, seed=2)
        answer = audited(tmp_path)
        assert answer.code == 1 and answer.found == ["scalar loss.factor"], answer


@pytest.mark.parametrize("counts", [(6, 6, 6), (4, 4)])
def test_equal_numbers_of_own_tokens_are_not_taken_for_those_of_the_step(tmp_path, counts):
    run_job(tmp_path, "reference.h5", by_number, counts=counts)
    run_job(tmp_path, "run.h5", by_number, counts=(2, 6, 5)[: len(counts)], seed=2)
    answer = audited(tmp_path)
    assert answer.code == 0 and answer.judged == answer.tensors, answer
