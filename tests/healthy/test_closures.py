"""`optimizer.step(closure)`: the gradients are computed, and clipped, inside the optimizer's step.

Lightning's automatic optimization makes every step so, L-BFGS evaluates the closure several times.
"""

import pytest
import torch
from answers import audited, compared
from torch import nn

import ttrace_torch as tt

MICROBATCHES = 2
CLIP = 0.05


def model_of():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))


def data_of(number):
    generator = torch.Generator().manual_seed(number)
    return torch.randn(6, 8, generator=generator), torch.randn(6, 4, generator=generator)


class Job:
    """A job of two micro-batches a step, traced into `out`.

    weights: of the micro-batches' losses, which are averages over both.
    """

    def __init__(self, folder, out, optimizer, weights=(1.0, 1.0), **arguments):
        self.model = model_of()
        self.optimizer = optimizer(self.model.parameters())
        self.tracer = tt.trace(self.model, self.optimizer, out=folder / out, **arguments)
        self._weights = weights
        self._data = [data_of(number) for number in range(MICROBATCHES)]

    def backward(self, number):
        with self.tracer.microbatch(number):
            x, y = self._data[number]
            self.tracer.scalar("targets", y)
            loss = self.tracer.loss((self.model(x) - y).square().mean())
            (loss * self._weights[number] / MICROBATCHES).backward()
        return loss

    def clip(self):
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.tracer.grad_norm(norm, clip_norm=CLIP)


def adam(parameters):
    return torch.optim.AdamW(parameters, lr=0.01)


def plain(folder, out, optimizer=adam, **arguments):
    """The usual loop."""
    job = Job(folder, out, optimizer, **arguments)
    for step in range(2):
        with job.tracer.step(step):
            for number in range(MICROBATCHES):
                job.backward(number)
            job.clip()
            job.optimizer.step()
            job.optimizer.zero_grad()
    job.tracer.close()


def as_lightning(folder, out, optimizer=adam, **arguments):
    """All micro-batches but the last before the optimizer's step, the last and clipping in it."""
    job = Job(folder, out, optimizer, **arguments)

    def closure():
        loss = job.backward(MICROBATCHES - 1)
        job.clip()
        return loss

    for step in range(2):
        with job.tracer.step(step):
            for number in range(MICROBATCHES - 1):
                job.backward(number)
            loss = job.optimizer.step(closure=closure)
            assert isinstance(loss, torch.Tensor)
            job.optimizer.zero_grad()
    job.tracer.close()


def all_inside(folder, out, optimizer=adam, count=1, **arguments):
    """The whole step in the closure, as the page of `torch.optim` has it."""
    job = Job(folder, out, optimizer, **arguments)

    def closure():
        job.optimizer.zero_grad()
        return sum(job.backward(number) for number in range(MICROBATCHES))

    for step in range(count):
        with job.tracer.step(step):
            job.optimizer.step(closure)
    job.tracer.close()
    return job


def test_healthy_run_matches_and_holds(tmp_path):
    plain(tmp_path, "reference.h5", specification=tmp_path / "specification.json")
    as_lightning(tmp_path, "run.h5")
    answer = compared(tmp_path)
    assert answer.code == 0, answer
    answer = audited(tmp_path)
    assert answer.code == 0, answer
    assert answer.judged == answer.tensors


def test_specification_of_a_closure_judges_all(tmp_path):
    as_lightning(tmp_path, "reference.h5", specification=tmp_path / "specification.json")
    plain(tmp_path, "run.h5")
    answer = audited(tmp_path)
    assert answer.code == 0 and answer.judged == answer.tensors, answer
    assert compared(tmp_path).code == 0


def test_wrong_weight_of_a_micro_batch_is_found(tmp_path):
    plain(tmp_path, "reference.h5", specification=tmp_path / "specification.json")
    as_lightning(tmp_path, "run.h5", weights=(1.0, 1.05))
    answer = compared(tmp_path)
    assert answer.code == 1
    assert answer.found[0] == "grad_output loss"
    assert audited(tmp_path).code == 1


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1)


@pytest.mark.parametrize("optimizer", [sgd, adam])
def test_closure_alone_has_main_gradients(tmp_path, optimizer):
    all_inside(tmp_path, "reference.h5", optimizer, specification=tmp_path / "specification.json")
    all_inside(tmp_path, "run.h5", optimizer)
    assert compared(tmp_path).code == 0
    answer = audited(tmp_path)
    assert answer.code == 0 and answer.judged == answer.tensors, answer


def lbfgs(parameters):
    return torch.optim.LBFGS(parameters, lr=0.1, max_iter=4, line_search_fn="strong_wolfe")


def test_first_of_several_evaluations_is_recorded(tmp_path, capfd):
    job = all_inside(tmp_path, "reference.h5", lbfgs, 2, specification=tmp_path / "s.json")
    assert [text for text in job.tracer.incomplete if "several times" in text]
    said = capfd.readouterr().err
    assert "evaluates its closure several times" in said and "cannot be replayed" in said
    all_inside(tmp_path, "run.h5", lbfgs, 2)
    answer = compared(tmp_path)
    assert answer.code == 0, answer
    answer = audited(tmp_path, specification="s.json")
    # What it computes from the first evaluation's gradients, the specification has.
    assert answer.code == 0 and answer.judged == answer.tensors, answer
    all_inside(tmp_path, "run.h5", lbfgs, 2, weights=(1.0, 0.95))
    assert compared(tmp_path).code == audited(tmp_path, specification="s.json").code == 1


def test_recording_changes_no_bit_of_the_training(tmp_path):
    traced = all_inside(tmp_path, "run.h5", lbfgs, 3).model
    untraced = all_inside(tmp_path, "other.h5", lbfgs, 3, steps=[99]).model
    for one, other in zip(traced.parameters(), untraced.parameters(), strict=True):
        assert torch.equal(one, other)


def test_raw_gradients_without_main_gradients_are_no_match(tmp_path):
    for out in ("reference.h5", "run.h5"):
        model = model_of()
        with tt.trace(model, out=tmp_path / out) as tracer, tracer.step(0):
            x, y = data_of(0)
            tracer.loss((model(x) - y).square().mean()).backward()
    answer = compared(tmp_path)
    assert answer.code == 3
    assert "neither run recorded main gradients" in answer.line
