"""Forwards without gradients before the trained one: generation and old probabilities in GRPO."""

import pytest
import torch
from answers import audited, compared
from small_models import VOCABULARY, TiedGPT, seeded
from torch import nn
from torch.utils.checkpoint import checkpoint

import ttrace_torch as tt

MICROBATCHES, PROMPT, LENGTH = 2, 3, 4


class Wrapped(nn.Module):
    """As PEFT wraps a model: generation calls the inner one."""

    def __init__(self):
        super().__init__()
        self.base_model = TiedGPT()

    def forward(self, ids):
        return self.base_model(ids)


class Reentrant(nn.Module):
    """All of the model in one checkpoint, whose first pass has no gradients."""

    def __init__(self):
        super().__init__()
        self.base_model = TiedGPT()

    def forward(self, ids):
        lift = torch.zeros((), requires_grad=True)
        return checkpoint(lambda ids, _: self.base_model(ids), ids, lift, use_reentrant=True)


MODELS = {"plain": TiedGPT, "wrapped": Wrapped, "reentrant": Reentrant}


def generate(model, ids):
    """The prompts `ids` [rows, PROMPT], continued by the likeliest tokens."""
    with torch.no_grad():
        for _ in range(LENGTH):
            ids = torch.cat([ids, model(ids)[:, -1:].argmax(-1)], 1)
    return ids


def logps(model, ids):
    logits = model(ids[:, :-1]).log_softmax(-1)
    return logits.gather(-1, ids[:, 1:, None]).squeeze(-1)


def run_job(folder, out, make, inside, fault=None, **arguments):
    """One step. inside: whether the step generates what it trains on."""
    model = seeded(make)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    prompts = [
        torch.randint(VOCABULARY, (2, PROMPT), generator=torch.Generator().manual_seed(number))
        for number in range(MICROBATCHES)
    ]
    generator = getattr(model, "base_model", model)
    generated = None if inside else [generate(generator, prompt) for prompt in prompts]
    tracer = tt.trace(model, optimizer, out=folder / out, **arguments)
    with tracer.step(0):
        for number, prompt in enumerate(prompts):
            if generated is None:
                model.eval()
                ids = generate(generator, prompt)
                model.train()
                with torch.no_grad():
                    logps(model, ids)  # of the old policy, in training mode
            else:
                ids = generated[number]
            advantage = -0.55 if fault == "advantage" and number == 1 else -0.5
            if fault == "shifted":
                ids = ids.roll(1, 0)
            new = logps(model, ids)
            ratio = torch.exp(new - new.detach())
            tracer.loss(-(ratio * advantage).mean())
            (-(ratio * advantage).mean() / MICROBATCHES).backward()
        optimizer.step()
    tracer.close()
    return tracer


@pytest.mark.parametrize("kind", MODELS)
def test_healthy_run_matches_and_holds(tmp_path, kind):
    make = MODELS[kind]
    run_job(tmp_path, "reference.h5", make, inside=False)
    tracer = run_job(
        tmp_path, "run.h5", make, inside=True, specification=tmp_path / "specification.json"
    )
    assert tracer.incomplete == []
    answer = compared(tmp_path)
    assert answer.code == 0, answer
    answer = audited(tmp_path)
    assert answer.code == 0, answer


@pytest.mark.parametrize(
    ("fault", "first"), [("advantage", "loss loss"), ("shifted", "input (model)")]
)
def test_fault_is_found(tmp_path, fault, first):
    run_job(tmp_path, "reference.h5", TiedGPT, inside=False)
    run_job(tmp_path, "run.h5", TiedGPT, inside=True, fault=fault)
    answer = compared(tmp_path)
    assert answer.code == 1
    assert answer.found[0] == first


def test_step_that_only_evaluates_says_so_and_can_be_traced(tmp_path, capfd):
    model = seeded(TiedGPT)
    prompt = torch.zeros(1, PROMPT, dtype=torch.int64)
    with tt.trace(model, out=tmp_path / "run.h5") as tracer, tracer.step(0), torch.no_grad():
        model(prompt)
    assert "every forward of the model ran with gradients off" in capfd.readouterr().err
    with tt.trace(model, out=tmp_path / "run.h5") as tracer, torch.no_grad(), tracer.step(0):
        model(prompt)
    assert "gradients off" not in capfd.readouterr().err
    with tt.trace(model, out=tmp_path / "one.h5") as tracer, tracer.step(0):
        model(prompt)
    assert compared(tmp_path, "run.h5", "one.h5").code == 0


def test_frozen_encoder_that_runs_alone_is_recorded(tmp_path):
    model = nn.ModuleDict({"encoder": nn.Linear(4, 4), "head": nn.Linear(4, 1)})
    model["encoder"].requires_grad_(False)
    optimizer = torch.optim.SGD(model["head"].parameters(), lr=0.1)
    x = torch.ones(2, 4)
    with tt.trace(model, optimizer, out=tmp_path / "run.h5") as tracer, tracer.step(0):
        with torch.no_grad():
            features = model["encoder"](x)
        tracer.loss(model["head"](features).sum()).backward()
        optimizer.step()
    with tt.trace(model, optimizer, out=tmp_path / "other.h5") as tracer, tracer.step(0):
        with torch.no_grad():
            features = model["encoder"](x) * 1.01
        tracer.loss(model["head"](features).sum()).backward()
        optimizer.step()
    answer = compared(tmp_path, "other.h5", "run.h5")
    assert answer.code == 1
