"""torch.compile, GradScalers and several optimizers: what is recorded of them, and that none of
them computes anything else with a tracer than without."""

from __future__ import annotations

import pytest
import torch
from small_models import WIDTH, TiedGPT, batch, cross_entropy, seeded
from torch import nn
from trace_reading import Trace

import ttrace_torch as tt


def adam(parameters):
    return torch.optim.AdamW(parameters, lr=1e-2)


def losses_of(model, run, out, steps=3, **options):
    """The losses of a few steps, of which the tracer records the second."""
    optimizer = adam(model.parameters())
    tracer = tt.trace(model, optimizer, out=out, steps=[1], **options) if out else None
    losses = []
    for step in range(steps):
        if tracer is None:
            losses.append(run(model, optimizer))
            continue
        with tracer.step(step):
            losses.append(run(model, optimizer))
    if tracer is not None:
        tracer.close()
    return losses, tracer


def plain(model, optimizer):
    ids, labels = batch()
    loss = cross_entropy(model(ids), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


def whole():
    return torch.compile(seeded(TiedGPT), backend="aot_eager")


def per_block():
    model = seeded(TiedGPT)
    for number, layer in enumerate(model.layers):
        model.layers[number] = torch.compile(layer, backend="aot_eager", fullgraph=True)
    return model


def in_place():
    model = seeded(TiedGPT)
    for layer in model.layers:
        layer.compile(backend="aot_eager", fullgraph=True)
    return model


SEEN = {
    whole: {"(model)"},
    per_block: {"(model)", "embedding", "layers.0", "layers.1", "norm", "head"},
    in_place: {"(model)", "embedding", "norm", "head"},
}


@pytest.mark.parametrize("make", SEEN, ids=lambda make: make.__name__)
def test_compiled_models_are_recorded_at_their_boundaries(tmp_path, make, capsys):
    torch._dynamo.reset()
    untraced, _ = losses_of(make(), plain, None)
    torch._dynamo.reset()
    counts = torch._dynamo.utils.counters
    counts.clear()
    traced, tracer = losses_of(make(), plain, tmp_path / "run.h5")
    assert traced == untraced
    assert counts["stats"]["unique_graphs"] <= (1 if make is whole else 2)
    assert not counts["graph_break"]
    trace = Trace(tmp_path / "run.h5")
    assert set(trace.names("output")) == SEEN[make]
    assert len(trace.names("param_grad")) == len(trace.names("main_grad")) > 10
    assert capsys.readouterr().err.count("TORCHDYNAMO_DISABLE=1") >= 1
    patterns = {entry["tensors"] for entry in trace.manifest["run"]["incomplete"]}
    assert ("*/*/output/*/*/*" if make is whole else "*/*/output/layers.0.*/*/*") in patterns
    assert tracer.failed is None


@pytest.mark.parametrize("make", [whole, per_block, in_place], ids=lambda make: make.__name__)
def test_compilation_that_is_disabled_hides_nothing(tmp_path, make, monkeypatch):
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")
    _, tracer = losses_of(make(), plain, tmp_path / "run.h5")
    assert tracer.incomplete == []
    expected = {name or "(model)" for name, _ in TiedGPT().named_modules()} - {"layers"}
    assert set(Trace(tmp_path / "run.h5").names("output")) == expected


def graphed_by_hand():
    """What torch.cuda.make_graphed_callables leaves of a module, without a GPU."""
    model = seeded(TiedGPT)

    def make_graphed_callables(forward):
        return lambda *args: forward(*args)

    layer = model.layers[0]
    layer.forward = make_graphed_callables(layer.forward)
    return model


def test_cuda_graphs_are_refused_in_one_sentence(tmp_path):
    with pytest.raises(tt.TraceError, match="layers.0 runs in CUDA graphs") as told:
        tt.trace(graphed_by_hand(), None, out=tmp_path / "run.h5")
    assert "\n" not in str(told.value)
    assert not tt.trace(graphed_by_hand(), None).active


def test_graphs_of_the_compiler_are_refused_on_a_gpu_alone(tmp_path, monkeypatch):
    model = seeded(TiedGPT)
    model.layers[0] = torch.compile(model.layers[0], mode="reduce-overhead")
    tt.trace(model, None, out=tmp_path / "cpu.h5").close()
    monkeypatch.setattr(torch.nn.Parameter, "is_cuda", True, raising=False)
    with pytest.raises(tt.TraceError, match="layers.0 runs in CUDA graphs"):
        tt.trace(model, None, out=tmp_path / "gpu.h5")


def scaled(scaler, infinite):
    def run(model, optimizer):
        with torch.autocast("cpu", dtype=torch.float16):
            output = model(torch.full((2, WIDTH), float("inf") if infinite else 0.5))
        loss = output.float().square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        return loss.item()

    return run


@pytest.mark.parametrize("infinite", [False, True])
def test_gradients_carry_the_scale_and_skipped_steps_say_so(tmp_path, infinite):
    def make():
        return seeded(lambda: nn.Linear(WIDTH, WIDTH))

    def scaler():
        return torch.amp.GradScaler("cpu", init_scale=1024.0)

    untraced, _ = losses_of(make(), scaled(scaler(), infinite), None)
    own = scaler()
    traced, _ = losses_of(make(), scaled(own, infinite), tmp_path / "run.h5", scaler=own)
    assert str(traced) == str(untraced)
    trace = Trace(tmp_path / "run.h5")
    scale = 1024.0 / (2 if infinite else 1)
    assert trace.entry("param_grad", "weight", 1, 0)["scale"] == 1 / scale
    incomplete = trace.manifest["run"].get("incomplete", [])
    if infinite:
        assert trace.names("main_grad") == ["weight", "bias"]
        assert trace.names("param_after_step") == []
        assert [e["skipped"] for e in trace.manifest["optimizer"] if e["step"] == 1] == [True]
        assert any("GradScaler skipped the update of step 1" in e["reason"] for e in incomplete)
    else:
        # The scaler has divided by its scale when the optimizer begins.
        assert "scale" not in trace.entry("main_grad", "weight", 1)
        assert trace.names("param_after_step") and incomplete == []


def test_main_gradients_taken_before_they_are_unscaled_carry_the_scale(tmp_path):
    model = seeded(lambda: nn.Linear(WIDTH, WIDTH))
    optimizer, scaler = adam(model.parameters()), torch.amp.GradScaler("cpu", init_scale=8.0)
    tracer = tt.trace(model, optimizer, out=tmp_path / "run.h5", scaler=scaler)
    with tracer.step(0):
        scaler.scale(model(torch.ones(1, WIDTH)).sum()).backward()
        tracer.main_grads()
        scaler.step(optimizer)
        scaler.update()
    tracer.close()
    assert Trace(tmp_path / "run.h5").entry("main_grad", "weight")["scale"] == 0.125


def test_several_optimizers_make_one_step(tmp_path, capsys):
    def run(model, optimizers):
        ids, labels = batch()
        loss = cross_entropy(model(ids), labels)
        loss.backward()
        for one in optimizers:
            one.step()
            one.zero_grad()
        return loss.item()

    def made():
        model = seeded(TiedGPT)
        matrices = [p for p in model.layers.parameters() if p.dim() == 2]
        others = [p for p in model.parameters() if all(p is not m for m in matrices)]
        return model, [torch.optim.Muon(matrices, lr=0.01), adam(others)]

    model, optimizers = made()
    untraced = [run(model, optimizers) for _ in range(2)]
    model, optimizers = made()
    tracer = tt.trace(model, optimizers, out=tmp_path / "run.h5")
    traced = []
    for step in range(2):
        with tracer.step(step):
            traced.append(run(model, optimizers))
    tracer.close()
    assert traced == untraced and tracer.incomplete == [] and capsys.readouterr().err == ""
    trace = Trace(tmp_path / "run.h5")
    assert len(trace.names("main_grad")) == len(trace.names("param_after_step"))
    types = {(e["step"], e["type"]) for e in trace.manifest["optimizer"]}
    assert types == {(step, name) for step in (0, 1) for name in ("muon", "adamw")}
    assert "layers.0.attn.weight.momentum_buffer" in trace.names("optimizer_state")
