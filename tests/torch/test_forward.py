"""Inputs and outputs: the values a module received and returned, each copied when it was there."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from small_models import WIDTH, TiedGPT, batch, seeded, train_step
from torch import nn
from trace_reading import Trace

import ttrace_torch as tt


def trace_forward(model, tmp_path, *args, **kwargs):
    """Traces one forward pass without gradients of interest."""
    tracer = tt.trace(model, out=tmp_path / "run.h5")
    with tracer.step(0):
        output = model(*args, **kwargs)
    tracer.close()
    return Trace(tmp_path / "run.h5"), output


def test_values_equal_a_run_by_hand(tmp_path):
    model = seeded(TiedGPT)
    tracer = tt.trace(model, out=tmp_path / "run.h5")
    (loss,) = train_step(model, tracer)
    tracer.close()
    trace = Trace(tmp_path / "run.h5")

    ids, _ = batch()
    with torch.no_grad():
        x = model.embedding(ids)
        n = model.layers[0].norm1(x)
        a = model.layers[0].attn(n)
    np.testing.assert_array_equal(trace.value("input", "(model)", microbatch=0), ids.numpy())
    np.testing.assert_array_equal(trace.value("output", "embedding", microbatch=0), x.numpy())
    np.testing.assert_array_equal(trace.value("input", "layers.0.norm1", microbatch=0), x.numpy())
    np.testing.assert_array_equal(trace.value("input", "layers.0.attn", microbatch=0), n.numpy())
    np.testing.assert_array_equal(trace.value("output", "layers.0.attn", microbatch=0), a.numpy())
    assert trace.value("loss", "loss", microbatch=0) == loss
    assert trace.entry("loss", "loss", microbatch=0)["shape"] == []
    modules = {name or "(model)" for name, _ in model.named_modules()} - {"layers"}
    assert set(trace.names("output")) == modules
    trace.check_complete()


def test_tracing_changes_nothing(tmp_path):
    def run(traced):
        model = seeded(TiedGPT)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        ids, targets = batch()
        if traced:
            with tt.trace(model, optimizer, out=tmp_path / "run.h5") as tracer:
                train_step(model, tracer, optimizer)
        else:
            nn.functional.cross_entropy(model(ids).flatten(0, -2), targets.flatten()).backward()
            optimizer.step()
        return list(model.parameters())

    for plain, traced in zip(run(False), run(True), strict=False):
        assert torch.equal(plain, traced)


def test_in_place_operations_do_not_reach_into_the_record(tmp_path):
    class InPlace(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(WIDTH, WIDTH)
            self.relu = nn.ReLU(inplace=True)

        def forward(self, x):
            y = self.relu(self.linear(x))
            return y.mul_(3)

    model = seeded(InPlace)
    x = torch.randn(4, WIDTH)
    trace, output = trace_forward(model, tmp_path, x)
    before = model.linear(x).detach()
    np.testing.assert_array_equal(trace.value("output", "linear", microbatch=0), before)
    np.testing.assert_array_equal(trace.value("input", "relu", microbatch=0), before)
    np.testing.assert_array_equal(trace.value("output", "relu", microbatch=0), before.relu())
    np.testing.assert_array_equal(trace.value("output", "(model)", microbatch=0), output.detach())
    assert (before < 0).any()


Pair = namedtuple("Pair", "left right")


@dataclass
class Result:
    logits: torch.Tensor
    extra: dict
    nothing: None = None


class Structured(nn.Module):
    """Takes and returns every structure there is."""

    def forward(self, pair, scale=None, *, mask=None):
        left, right = pair
        return Result(left * scale, {"mask": mask, "sum": [left + right, (right.long(),)]})


def test_nested_structures_are_flattened_in_order(tmp_path):
    left, right = torch.randn(3), torch.randn(3)
    mask = torch.tensor([True, False, True])
    trace, _ = trace_forward(
        Structured(), tmp_path, Pair(left, right), mask=mask, scale=torch.tensor(2.0)
    )
    arguments = ("pair][0", "pair][1", "mask", "scale")
    inputs = [f"(model)[{argument}]" for argument in arguments]
    assert trace.names("input") == inputs
    assert [trace.entry("input", n, microbatch=0)["position"] for n in inputs] == [0, 1, 2, 3]
    for name, expected in zip(inputs, (left, right, mask, torch.tensor(2.0)), strict=False):
        np.testing.assert_array_equal(trace.value("input", name, microbatch=0), expected)
    results = ("logits", "extra][mask", "extra][sum][0", "extra][sum][1][0")
    outputs = [f"(model)[{result}]" for result in results]
    expected = (left * 2, mask, left + right, right.long())
    for name, value in zip(outputs, expected, strict=False):
        np.testing.assert_array_equal(trace.value("output", name, microbatch=0), value)
    dtypes = [trace.entry("output", name, microbatch=0)["dtype"] for name in outputs]
    assert dtypes == ["float32", "bool", "float32", "int64"]
    assert [trace.entry("output", n, microbatch=0)["position"] for n in outputs] == [0, 1, 2, 3]
    assert trace.modules["(model)"]["outputs"] == outputs


def test_repeated_calls_are_numbered_within_each_microbatch(tmp_path):
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.shared = nn.Linear(WIDTH, WIDTH)

        def forward(self, x):
            return self.shared(self.shared(x))

    model = seeded(Twice)
    tracer = tt.trace(model, out=tmp_path / "run.h5")
    inputs = [torch.randn(2, WIDTH) for _ in range(2)]
    with tracer.step(4):
        for number, x in zip((6, 7), inputs, strict=False):
            with tracer.microbatch(number):
                model(x).sum().backward()
    tracer.close()
    trace = Trace(tmp_path / "run.h5")
    for number, x in zip((6, 7), inputs, strict=False):
        once = model.shared(x)
        twice = model.shared(once).detach()
        where = {"step": 4, "microbatch": number}
        np.testing.assert_array_equal(trace.value("output", "shared", **where), once.detach())
        np.testing.assert_array_equal(trace.value("output", "shared", call=1, **where), twice)
        gradient = trace.value("grad_output", "shared", call=1, **where)
        np.testing.assert_array_equal(gradient, np.ones((2, WIDTH)))
        expected = np.ones((2, WIDTH)) @ model.shared.weight.detach().numpy()
        np.testing.assert_allclose(
            trace.value("grad_output", "shared", **where), expected, rtol=1e-6
        )


def test_one_tensor_may_be_output_of_several_modules(tmp_path):
    model = nn.Sequential(nn.Sequential(nn.Identity(), nn.Linear(WIDTH, 2)), nn.Identity())
    tracer = tt.trace(model, out=tmp_path / "run.h5")
    x = torch.randn(3, WIDTH)
    with tracer.step(0):
        output = model(x)
        output.sum().backward()
    tracer.close()
    trace = Trace(tmp_path / "run.h5")
    for name in ("0.1", "0", "1", "(model)"):
        np.testing.assert_array_equal(trace.value("output", name, microbatch=0), output.detach())
        np.testing.assert_array_equal(
            trace.value("grad_output", name, microbatch=0), np.ones((3, 2))
        )
    np.testing.assert_array_equal(trace.value("output", "0.0", microbatch=0), x)
    # The identity passed on an input that needs no gradient.
    assert "0.0" not in trace.names("grad_output")


def test_nothing_is_recorded_outside_a_step(tmp_path):
    model = seeded(TiedGPT)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tracer = tt.trace(model, optimizer, out=tmp_path / "run.h5")
    ids, _ = batch()

    def untraced():
        assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
        with tracer.microbatch(0):
            tracer.loss(model(ids).sum()).backward()
        tracer.main_grads()
        tracer.params_after_step()
        tracer.grad_norm(1.0)
        tracer.scalar("x", 1.0)
        optimizer.step()
        optimizer.zero_grad()

    untraced()
    train_step(model, tracer, optimizer, step=1)
    untraced()
    tracer.close()
    trace = Trace(tmp_path / "run.h5")
    assert {entry["step"] for entry in trace.entries.values()} == {1}
    assert len(trace.names("loss")) == 1
    # Updates are counted all the same.
    assert [entry["updates"] for entry in trace.manifest["optimizer"]] == [2]


def test_a_late_gradient_of_a_finished_step_is_dropped(tmp_path):
    model = seeded(TiedGPT)
    tracer = tt.trace(model, out=tmp_path / "run.h5")
    with tracer.step(0):
        loss = model(batch()[0]).sum()
    with tracer.step(1):
        loss.backward()
    tracer.close()
    assert "grad_output" not in {kind for kind, *_ in Trace(tmp_path / "run.h5").entries}


def test_a_step_that_throws_is_dropped(tmp_path):
    model = seeded(TiedGPT)
    tracer = tt.trace(model, out=tmp_path / "run.h5")
    train_step(model, tracer, step=0)
    with pytest.raises(ZeroDivisionError), tracer.step(1):
        model(batch()[0])
        raise ZeroDivisionError
    train_step(model, tracer, step=2)
    tracer.close()
    trace = Trace(tmp_path / "run.h5")
    assert {entry["step"] for entry in trace.entries.values()} == {0, 2}
    trace.check_complete()


def test_wrappers_leave_no_trace_in_names(tmp_path):
    class Wrapper(nn.Module):
        def __init__(self, inner, attribute):
            super().__init__()
            self.add_module(attribute, inner)
            self.attribute = attribute

        def forward(self, *args):
            return getattr(self, self.attribute)(*args)

    model = seeded(TiedGPT)
    model.layers[1] = Wrapper(model.layers[1], "_checkpoint_wrapped_module")
    wrapped = Wrapper(Wrapper(model, "_orig_mod"), "module")
    tracer = tt.trace(wrapped, out=tmp_path / "run.h5")
    train_step(wrapped, tracer)
    tracer.close()
    trace = Trace(tmp_path / "run.h5")
    expected = {name or "(model)" for name, _ in TiedGPT().named_modules()} - {"layers"}
    assert set(trace.names("output")) == expected
    assert set(trace.names("param")) == {name for name, _ in TiedGPT().named_parameters()}
    assert trace.modules["(model)"]["class"] == "TiedGPT"
    assert trace.modules["layers.1"]["class"] == "Block"
