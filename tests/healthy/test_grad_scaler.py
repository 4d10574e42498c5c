"""GradScaler: the loss and the raw gradients carry its scale, the main gradients may not."""

import json

import h5py
import pytest
import torch
from answers import audited, compared
from torch import nn

import ttrace_torch as tt

MICROBATCHES, CLIP = 2, 0.05
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 4)

    def forward(self, x):
        return self.down(torch.tanh(self.up(x)))


_UNSCALE = torch.amp.GradScaler.unscale_


class OwnScaler(torch.amp.GradScaler):
    """Unscales on its own, as the ShardedGradScaler of FSDP does."""

    def unscale_(self, optimizer):
        _UNSCALE(self, optimizer)


def run_job(
    folder,
    out,
    dtype="fp32",
    scale=65536.0,
    told=True,
    clips=None,
    weights=(1.0, 1.0),
    forgotten=False,
    steps=(0,),
    specification=None,
    scaler_class=torch.amp.GradScaler,
):
    """scale: of the scaler; None for a job without one. told: whether trace() gets the scaler.
    clips: None, "unscaled" (the main gradients are recorded once the scaler has divided them) or
    "scaled" (before that).
    weights: of the micro-batches. forgotten: whether the gradients are not divided by the scale.
    steps: those that are traced.
    """
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scaler = scaler_class("cpu", enabled=scale is not None, init_scale=scale or 1.0)
    generator = torch.Generator().manual_seed(1)
    tracer = tt.trace(
        model,
        optimizer,
        out=folder / out,
        steps=list(steps),
        scaler=scaler if told else None,
        specification=None if specification is None else folder / specification,
    )
    for step in range(max(steps) + 1):
        batches = [
            (torch.randn(6, 8, generator=generator), torch.randint(4, (6,), generator=generator))
            for _ in range(MICROBATCHES)
        ]
        with tracer.step(step):
            for (x, labels), weight in zip(batches, weights, strict=True):
                with torch.autocast("cpu", DTYPES[dtype], enabled=dtype != "fp32"):
                    logits = model(x).float()
                    loss = tracer.loss(nn.functional.cross_entropy(logits, labels), labels=labels)
                scaler.scale(loss * weight / MICROBATCHES).backward()
            if clips:
                if clips == "scaled":
                    tracer.main_grads()
                scaler.unscale_(optimizer)
                if clips == "unscaled":
                    tracer.main_grads()
                norm = nn.utils.clip_grad_norm_(model.parameters(), CLIP)
                tracer.grad_norm(norm, clip_norm=CLIP)
            if forgotten:
                optimizer.step()
            else:
                scaler.step(optimizer)
                scaler.update()
            optimizer.zero_grad()
    tracer.close()
    return tracer


def holds(answer):
    return answer.code == 0 and answer.judged == answer.tensors


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("clips", [None, "unscaled", "scaled"])
def test_healthy_run_holds_by_the_specification_of_any_scale(tmp_path, dtype, clips):
    jobs = {
        "told": {},
        "found": {"told": False},
        "plain": {"scale": None},
        "other": {"scale": 1024.0},
    }
    for name, arguments in jobs.items():
        path = f"{name}.json"
        run_job(tmp_path, f"{name}.h5", dtype, clips=clips, specification=path, **arguments)
    # One specification, whatever the scale, so that each run holds by that of any other.
    specifications = [json.loads((tmp_path / f"{name}.json").read_text()) for name in jobs]
    for specification in specifications:
        del specification["source"]["created"]
        assert specification == specifications[0]
    for run in jobs:
        answer = audited(tmp_path, f"{run}.h5", "plain.json")
        assert holds(answer), (run, answer)
        if run != "plain":
            answer = compared(tmp_path, f"{run}.h5", "plain.h5")
            assert answer.code == 0, answer


def test_scaler_that_unscales_on_its_own(tmp_path):
    run_job(tmp_path, "reference.h5", scale=None, clips="unscaled", specification="plain.json")
    run_job(tmp_path, "run.h5", told=False, clips="unscaled", scaler_class=OwnScaler)
    assert compared(tmp_path).code == 0
    assert holds(audited(tmp_path, specification="plain.json"))


@pytest.mark.parametrize("told", [False, True])
def test_specification_of_a_later_step_holds(tmp_path, told):
    run_job(tmp_path, "run.h5", steps=(2, 3), told=told, specification="specification.json")
    answer = audited(tmp_path)
    assert holds(answer), answer


def test_lost_scale_is_found(tmp_path):
    run_job(tmp_path, "reference.h5", specification="specification.json")
    run_job(tmp_path, "run.h5", forgotten=True)
    for answer in (audited(tmp_path), compared(tmp_path)):
        assert answer.code == 1
        assert answer.found[0].startswith("main_grad"), answer


def test_wrong_weight_of_a_micro_batch_is_found(tmp_path):
    run_job(tmp_path, "reference.h5", specification="specification.json")
    run_job(tmp_path, "run.h5", weights=(1.0, 1.05))
    for answer in (audited(tmp_path), compared(tmp_path)):
        assert answer.code == 1
        assert answer.found[0] == "grad_output loss", answer


@pytest.mark.parametrize("told", [False, True])
def test_skipped_step_is_not_broken(tmp_path, told):
    run_job(tmp_path, "reference.h5", "fp16", 1024.0, specification="specification.json")
    tracer = run_job(tmp_path, "run.h5", "fp16", 2.0**30, told, specification="own.json")
    assert any("skipped the update of step 0" in text for text in tracer.incomplete)
    for specification in ("specification.json", "own.json"):
        answer = audited(tmp_path, specification=specification)
        assert answer.code == 0, answer
        assert "not finite in a step that the GradScaler skipped" in answer.line


def test_scaler_of_another_optimizer_is_none_of_the_job(tmp_path):
    model, other = Model(), Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    other_optimizer = torch.optim.AdamW(other.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu")
    x = torch.randn(6, 8, generator=torch.Generator().manual_seed(1))
    tracer = tt.trace(model, optimizer, out=tmp_path / "run.h5")
    with tracer.step(0):
        scaler.scale(other(x).sum() * float("inf")).backward()
        scaler.step(other_optimizer)
        scaler.update()
        tracer.loss(model(x).square().mean()).backward()
        optimizer.step()
    tracer.close()
    assert tracer.incomplete == []


def test_infinite_gradient_that_did_not_overflow_is_broken(tmp_path):
    run_job(tmp_path, "reference.h5", "fp16", 1024.0, specification="specification.json")
    model_init = Model.__init__

    def broken(self):
        model_init(self)
        self.down.weight.register_hook(lambda gradient: gradient * float("inf"))

    Model.__init__ = broken
    try:
        run_job(tmp_path, "run.h5", "fp16", 1024.0)
    finally:
        Model.__init__ = model_init
    answer = audited(tmp_path)
    assert answer.code == 1 and answer.found[0] == "param_grad down.weight", answer


class WithLoss(Model):
    """A module is named as the loss is."""

    def __init__(self):
        super().__init__()
        self.loss = nn.CrossEntropyLoss()

    def forward(self, x, labels):
        return self.loss(super().forward(x), labels)


@pytest.mark.parametrize("scale", [None, 1024.0])
def test_model_with_a_module_named_loss(tmp_path, scale):
    model = WithLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", enabled=scale is not None, init_scale=scale or 1.0)
    tracer = tt.trace(
        model, optimizer, out=tmp_path / "run.h5", specification=tmp_path / "specification.json"
    )
    generator = torch.Generator().manual_seed(1)
    with tracer.step(0):
        for _ in range(MICROBATCHES):
            x = torch.randn(6, 8, generator=generator)
            labels = torch.randint(4, (6,), generator=generator)
            loss = tracer.loss(model(x, labels))
            scaler.scale(loss / MICROBATCHES).backward()
        scaler.step(optimizer)
        scaler.update()
    tracer.close()
    answer = audited(tmp_path)
    assert holds(answer), answer
    with h5py.File(tmp_path / "run.h5") as file:
        gradients = file["step_000000/mb_0001/grad_output"]
        scale = scale or 1.0
        assert gradients["loss"][()] == gradients["(loss)"][()] == scale / MICROBATCHES
