"""Labels recorded where no micro-batch is open, and under a pipeline schedule.

A tensor that a loss reads is of that loss's micro-batch; a learning rate is of the step.
"""

import pytest
import torch
from answers import audited, compared
from process_groups import run_ranks
from small_models import VOCABULARY, TiedGPT, batch, cross_entropy, seeded
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from trace_reading import Trace

import ttrace_torch as tt

MICROBATCHES = 3


def before_the_forward(tracer, model, ids, labels):
    tracer.scalar("labels", labels)
    return tracer.loss(cross_entropy(model(ids), labels))


def after_the_loss(tracer, model, ids, labels):
    loss = tracer.loss(cross_entropy(model(ids), labels))
    tracer.scalar("labels", labels)
    return loss


def given_to_the_loss(tracer, model, ids, labels):
    return tracer.loss(cross_entropy(model(ids), labels), labels=labels)


def of_a_difference(tracer, model, ids, labels):
    """A difference keeps none of its terms, so the loss has to be told."""
    wanted = nn.functional.one_hot(labels, VOCABULARY).float()
    return tracer.loss((model(ids) - wanted).square().mean(), labels=wanted)


LOOPS = [before_the_forward, after_the_loss, given_to_the_loss, of_a_difference]


def shifted(tracer, model, ids, labels):
    """Computes with the labels of the next token but one."""
    return tracer.loss(cross_entropy(model(ids), labels.roll(1, 1)), labels=labels)


def run_job(folder, out, loop, wrong=None, **arguments):
    """One step. wrong: the loop of micro-batch 1, if it is another one."""
    model = seeded(TiedGPT)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = [batch(seed=number) for number in range(MICROBATCHES)]
    tracer = tt.trace(model, optimizer, out=folder / out, **arguments)
    with tracer.step(0):
        for number, (ids, labels) in enumerate(batches):
            this = wrong if wrong is not None and number == 1 else loop
            (this(tracer, model, ids, labels) / MICROBATCHES).backward()
        tracer.scalar("lr", torch.tensor(0.1))
        optimizer.step()
    tracer.close()


@pytest.mark.parametrize("loop", LOOPS)
def test_healthy_run_matches_and_holds(tmp_path, loop):
    specification = tmp_path / "specification.json"
    run_job(tmp_path, "reference.h5", loop, specification=specification)
    run_job(tmp_path, "run.h5", loop)
    trace = Trace(tmp_path / "run.h5")
    scalars = {key[1:] for key in trace.entries if key[0] == "scalar"}
    assert {("labels", 0, number, 0) for number in range(MICROBATCHES)} <= scalars
    assert ("lr", 0, None, 0) in scalars
    answer = audited(tmp_path)
    assert answer.code == 0 and answer.judged == answer.tensors, answer
    assert compared(tmp_path).code == 0


def test_wrong_labels_of_a_micro_batch_are_found(tmp_path):
    specification = tmp_path / "specification.json"
    run_job(tmp_path, "reference.h5", before_the_forward, specification=specification)
    run_job(tmp_path, "run.h5", before_the_forward, wrong=shifted)
    answer = audited(tmp_path)
    assert answer.code == 1 and answer.found[0] == "loss loss", answer
    answer = compared(tmp_path)
    assert answer.code == 1 and answer.found[0] == "loss loss", answer


def of_the_step(tracer, model, ids, labels):
    """The labels that are recorded are copies, of which no loss knows."""
    tracer.scalar("labels", labels.clone())
    return tracer.loss(cross_entropy(model(ids), labels))


def test_labels_of_the_step_judge_no_micro_batch(tmp_path):
    specification = tmp_path / "specification.json"
    run_job(tmp_path, "reference.h5", given_to_the_loss, specification=specification)
    run_job(tmp_path, "run.h5", of_the_step)
    answer = audited(tmp_path)
    assert answer.code == 3 and "labels" in answer.line, answer


def unrecorded(tracer, model, ids, labels):
    return tracer.loss(cross_entropy(model(ids), labels))


def test_the_audit_says_which_line_records_labels(tmp_path):
    run_job(tmp_path, "run.h5", unrecorded, specification=tmp_path / "specification.json")
    answer = audited(tmp_path)
    assert answer.code == 3, answer
    assert "nobody recorded" in answer.line, answer
    assert "tracer.loss(loss, labels=labels)" in answer.line, answer


def test_numbers_of_a_named_micro_batch(tmp_path):
    model = seeded(TiedGPT)
    with tt.trace(model, out=tmp_path / "run.h5") as tracer, tracer.step(0):
        ids, labels = batch()
        loss = tracer.loss(cross_entropy(model(ids), labels), tokens=labels.numel())
        tracer.scalar("seen", labels, microbatch=7)
        tracer.scalar("seen", 3)
        with tracer.microbatch(2):
            tracer.scalar("seen", labels)
        loss.backward()
    keys = {key[1:] for key in Trace(tmp_path / "run.h5").entries if key[0] == "scalar"}
    seen = {("seen", 0, number, 0) for number in (2, 7, None)}
    assert {("tokens", 0, 0, 0)} | seen <= keys


class Stage(nn.Module):
    """The first or the last half of the model."""

    def __init__(self, place):
        super().__init__()
        whole = seeded(TiedGPT)
        names = ("embedding", "layers") if place == 0 else ("norm", "head")
        for name in names:
            setattr(self, name, getattr(whole, name))

    def forward(self, x):
        if hasattr(self, "embedding"):
            x = self.embedding(x)
            for layer in self.layers:
                x = layer(x)
            return x
        return self.head(self.norm(x))


class Whole(nn.Module):
    """Both halves, with an embedding and a head of their own."""

    def __init__(self):
        super().__init__()
        first, last = Stage(0), Stage(1)
        self.embedding, self.layers = first.embedding, first.layers
        self.norm, self.head = last.norm, last.head

    forward = TiedGPT.forward


def pipeline_rank(rank, folder, fault):
    stage = PipelineStage(Stage(rank), rank, 2, torch.device("cpu"))

    def loss_fn(logits, labels):
        wrong = fault and torch.equal(labels, batch(1)[1])
        used = labels.roll(1, 1) if wrong else labels
        return tracer.loss(cross_entropy(logits, used), labels=labels)

    schedule = Schedule1F1B(stage, MICROBATCHES, loss_fn=loss_fn)
    optimizer = torch.optim.SGD(stage.submod.parameters(), lr=0.1)
    tracer = tt.trace(schedule, optimizer, out=folder / "run")
    ids, labels = (torch.cat(x) for x in zip(*map(batch, range(MICROBATCHES)), strict=True))
    with tracer.step(0):
        schedule.step(*[ids][rank:], target=labels)
        optimizer.step()
    tracer.close()


def pipeline_reference(folder):
    model = Whole()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    path = folder / "specification.json"
    tracer = tt.trace(model, optimizer, out=folder / "reference.h5", specification=path)
    with tracer.step(0):
        for number in range(MICROBATCHES):
            (given_to_the_loss(tracer, model, *batch(number)) / MICROBATCHES).backward()
        optimizer.step()
    tracer.close()


def test_pipeline_matches_and_holds(tmp_path):
    pipeline_reference(tmp_path)
    run_ranks(2, pipeline_rank, tmp_path, False)
    answer = compared(tmp_path, "run")
    assert answer.code == 0, answer
    answer = audited(tmp_path, "run")
    assert answer.code == 0 and answer.judged == answer.tensors, answer


def test_wrong_labels_of_a_chunk_are_found(tmp_path):
    pipeline_reference(tmp_path)
    run_ranks(2, pipeline_rank, tmp_path, True)
    for answer in (compared(tmp_path, "run"), audited(tmp_path, "run")):
        assert answer.code == 1
        assert answer.found[0] == "loss loss", answer
