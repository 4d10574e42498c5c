"""Gradients of outputs and parameters, against what autograd itself keeps."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_models import WIDTH, Block, TiedGPT, batch, cross_entropy, seeded, train_step
from torch import nn
from torch.utils.checkpoint import checkpoint
from trace_reading import Trace

import ttrace_torch as tt


def expected_gradients(model, ids, targets):
    """Module name -> gradient of its output, parameter name -> gradient, by retain_grad."""
    kept = {}

    def keep(name):
        def hook(module, args, output):
            output.retain_grad()
            kept[name] = output

        return hook

    handles = [m.register_forward_hook(keep(n or "(model)")) for n, m in model.named_modules()]
    cross_entropy(model(ids), targets).backward()
    for handle in handles:
        handle.remove()
    outputs = {name: output.grad.numpy().copy() for name, output in kept.items()}
    params = {name: p.grad.numpy().copy() for name, p in model.named_parameters()}
    model.zero_grad()
    return outputs, params


def test_output_gradients_equal_retain_grad(tmp_path):
    model = seeded(TiedGPT)
    outputs, params = expected_gradients(model, *batch())
    tracer = tt.trace(model, out=tmp_path / "run.h5")
    train_step(model, tracer)
    tracer.close()
    trace = Trace(tmp_path / "run.h5")
    assert set(trace.names("grad_output")) == {*outputs, "loss"}
    for name, expected in outputs.items():
        # ReLU works in place: retain_grad on what it was given sees the gradient after it.
        if name.endswith("mlp.0"):
            continue
        np.testing.assert_array_equal(trace.value("grad_output", name, microbatch=0), expected)
    for name, expected in params.items():
        np.testing.assert_array_equal(trace.value("param_grad", name, microbatch=0), expected)


@pytest.mark.parametrize("shape", [(4,), (2, 3), (1, 2, 3)], ids=str)
def test_gradient_of_a_tensor_overwritten_in_place(tmp_path, shape):
    # With more than two dimensions, a linear layer's output is a view of a matrix product.
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(inplace=True))
    torch.manual_seed(0)
    x, up = torch.randn(*shape, WIDTH), torch.randn(*shape, WIDTH)
    tracer = tt.trace(model, out=tmp_path / "run.h5")
    with tracer.step(0):
        model(x).backward(up)
    tracer.close()
    trace = Trace(tmp_path / "run.h5")
    np.testing.assert_array_equal(trace.value("grad_output", "1", microbatch=0), up)
    expected = up * (model[0](x) > 0)
    np.testing.assert_array_equal(trace.value("grad_output", "0", microbatch=0), expected)


def test_gradient_of_a_transposed_view_overwritten_in_place(tmp_path):
    class Transposed(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(2, 3))

        def forward(self):
            return (self.weight * 2).t()

    model = nn.Module()
    model.inner = Transposed()
    up = torch.randn(3, 2)
    tracer = tt.trace(model, out=tmp_path / "run.h5")
    with tracer.step(0):
        model.inner().mul_(3).backward(up)
    tracer.close()
    trace = Trace(tmp_path / "run.h5")
    np.testing.assert_array_equal(trace.value("grad_output", "inner", microbatch=0), 3 * up)


def test_a_view_of_the_input_has_its_own_gradient(tmp_path):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.flatten = nn.Flatten()

        def forward(self, x):
            y = x + 1
            self.flatten(y)
            return y

    model = Model()
    tracer = tt.trace(model, out=tmp_path / "run.h5")
    with tracer.step(0):
        model(torch.randn(2, 3, 4, requires_grad=True)).sum().backward()
    tracer.close()
    assert Trace(tmp_path / "run.h5").names("grad_output") == ["(model)"]


def test_accumulation_keeps_the_microbatches_apart(tmp_path):
    model = seeded(TiedGPT)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    expected = []
    for number in range(2):
        (cross_entropy(model(batch(seed=number)[0]), batch(seed=number)[1]) / 2).backward()
        expected.append({n: p.grad.clone() for n, p in model.named_parameters()})
        model.zero_grad()
    with tt.trace(model, optimizer, out=tmp_path / "run.h5") as tracer:
        train_step(model, tracer, optimizer, microbatches=2)
    trace = Trace(tmp_path / "run.h5")
    for name, _ in model.named_parameters():
        for number in range(2):
            raw = trace.value("param_grad", name, microbatch=number)
            np.testing.assert_array_equal(raw, expected[number][name])
        total = expected[0][name] + expected[1][name]
        np.testing.assert_allclose(trace.value("main_grad", name), total, rtol=1e-6, atol=1e-9)


def test_a_late_backward_still_belongs_to_its_forward(tmp_path):
    model = seeded(TiedGPT)
    tracer = tt.trace(model, out=tmp_path / "run.h5")
    losses = {}
    with tracer.step(0):
        for number in (0, 1):
            with tracer.microbatch(number):
                losses[number] = model(batch(seed=number)[0]).square().sum()
        for number in (0, 1):
            with tracer.microbatch(number):
                losses[number].backward()
    tracer.close()
    trace = Trace(tmp_path / "run.h5")
    for number in (0, 1):
        logits = trace.value("output", "(model)", microbatch=number)
        gradient = trace.value("grad_output", "(model)", microbatch=number)
        np.testing.assert_allclose(gradient, 2 * logits, rtol=1e-6)
        assert ("param_grad", "norm.weight", 0, number, 0) in trace.entries


def test_several_backwards_over_one_output_add_up(tmp_path):
    model = seeded(lambda: nn.Linear(WIDTH, 1))
    tracer = tt.trace(model, out=tmp_path / "run.h5")
    with tracer.step(0):
        output = model(torch.ones(1, WIDTH))
        output.sum().backward(retain_graph=True)
        (2 * output).sum().backward()
    tracer.close()
    trace = Trace(tmp_path / "run.h5")
    np.testing.assert_array_equal(trace.value("grad_output", "(model)", microbatch=0), [[3]])
    np.testing.assert_array_equal(trace.value("param_grad", "bias", microbatch=0), [3])


def test_a_tied_parameter_is_recorded_once_with_all_its_gradient(tmp_path):
    model = seeded(TiedGPT)
    _, params = expected_gradients(model, *batch())
    tracer = tt.trace(model, torch.optim.SGD(model.parameters()), out=tmp_path / "run.h5")
    train_step(model, tracer)
    tracer.close()
    trace = Trace(tmp_path / "run.h5")
    assert "head.weight" not in trace.names("param")
    raw = trace.value("param_grad", "embedding.weight", microbatch=0)
    np.testing.assert_array_equal(raw, params["embedding.weight"])
    assert trace.modules["head"]["params"] == ["embedding.weight"]
    assert trace.modules["embedding"]["params"] == ["embedding.weight"]


def test_main_gradient_attribute_goes_before_grad(tmp_path):
    model = seeded(lambda: nn.Linear(WIDTH, 1))
    model.weight.main_grad = torch.full((1, WIDTH), 7.0)
    model.bias.main_grad = None
    frozen = nn.Parameter(torch.ones(2), requires_grad=False)
    model.register_parameter("frozen", frozen)
    tracer = tt.trace(model, out=tmp_path / "run.h5")
    with tracer.step(0):
        model(torch.ones(1, WIDTH)).sum().backward()
        tracer.main_grads()
        model.weight.main_grad.zero_()
        tracer.params_after_step()
    tracer.close()
    trace = Trace(tmp_path / "run.h5")
    np.testing.assert_array_equal(trace.value("main_grad", "weight"), np.full((1, WIDTH), 7.0))
    np.testing.assert_array_equal(trace.value("main_grad", "bias"), [1.0])
    assert trace.names("main_grad") == ["weight", "bias"]
    assert trace.names("param") == trace.names("param_after_step") == ["weight", "bias", "frozen"]


def test_main_gradients_once_per_step(tmp_path):
    model = seeded(lambda: nn.Linear(WIDTH, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    with tt.trace(model, optimizer, out=tmp_path / "run.h5") as tracer, tracer.step(0):
        model(torch.ones(1, WIDTH)).sum().backward()
        tracer.main_grads()
        for p in model.parameters():
            p.grad.mul_(0.5)
        optimizer.step()
    trace = Trace(tmp_path / "run.h5")
    np.testing.assert_array_equal(trace.value("main_grad", "bias"), [1.0])
    moved = trace.value("param", "bias") - trace.value("param_after_step", "bias")
    np.testing.assert_allclose(moved, [0.5], rtol=1e-6)


def test_output_that_is_a_parameter_itself(tmp_path):
    class Table(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))

        def forward(self):
            return self.weight

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = Table()

        def forward(self):
            return 2 * self.table()

    model = Model()
    tracer = tt.trace(model, out=tmp_path / "run.h5")
    for step in range(3):
        with tracer.step(step):
            model().sum().backward()
    tracer.close()
    trace = Trace(tmp_path / "run.h5")
    for step in range(3):
        gradient = trace.value("grad_output", "table", step=step, microbatch=0)
        np.testing.assert_array_equal(gradient, [2, 2, 2])
    assert trace.modules["(model)"]["computed_from"] == ["table"]
    assert not model.table.weight._backward_hooks


class Checkpointed(nn.Module):
    """Two segments of two blocks, one block shared by both, so that calls have to be told apart."""

    def __init__(self, use_reentrant):
        super().__init__()
        self.inlet = nn.Linear(WIDTH, WIDTH)
        self.first = Block()
        self.shared = Block()
        self.last = Block()
        self.use_reentrant = use_reentrant

    def segment(self, *blocks):
        def run(x):
            for block in blocks:
                x = block(x)
            return x

        return run

    def forward(self, x):
        x = self.inlet(x)
        for segment in (
            self.segment(self.first, self.shared),
            self.segment(self.shared, self.last),
        ):
            if self.use_reentrant is None:
                x = segment(x)
            else:
                x = checkpoint(segment, x, use_reentrant=self.use_reentrant)
        return x


def traced_checkpointed(path, use_reentrant, noise=None):
    model = seeded(lambda: Checkpointed(use_reentrant))
    tracer = tt.trace(model, out=path, perturb=noise)
    with tracer.step(0):
        for number in (0, 1):
            with tracer.microbatch(number):
                x = torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(number))
                tracer.loss(model(x).square().sum()).backward()
    tracer.close()
    return Trace(path)


@pytest.mark.parametrize("noise", [None, tt.Perturb(1, epsilon=0.01)], ids=["plain", "noise"])
@pytest.mark.parametrize("use_reentrant", [True, False])
def test_recomputation_is_no_second_call(tmp_path, use_reentrant, noise):
    plain = traced_checkpointed(tmp_path / "plain.h5", None, noise)
    recomputed = traced_checkpointed(tmp_path / "recomputed.h5", use_reentrant, noise)
    assert set(recomputed.entries) == set(plain.entries)
    assert ("grad_output", "shared.attn", 0, 1, 1) in plain.entries
    for key in plain.entries:
        expected, found = plain.value(*key), recomputed.value(*key)
        if key[0] == "param_grad":
            # The sum over a shared parameter's uses is formed in another order.
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(found, expected, err_msg=str(key))


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_recomputation_leaves_the_data_flow_as_it_is(tmp_path, use_reentrant):
    plain = traced_checkpointed(tmp_path / "plain.h5", None)
    recomputed = traced_checkpointed(tmp_path / "recomputed.h5", use_reentrant)
    for name, entry in plain.modules.items():
        found = recomputed.modules[name]
        for member in ("inputs", "computed_from", "params"):
            assert found.get(member) == entry.get(member), (name, member)


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
def test_recomputation_inside_recomputation(tmp_path):
    class Nested(nn.Module):
        def __init__(self, nested):
            super().__init__()
            self.blocks = nn.ModuleList([Block(), Block()])
            self.nested = nested

        def inner(self, x):
            return self.blocks[1](self.blocks[0](x))

        def outer(self, x):
            for _ in range(2):
                x = checkpoint(self.inner, x, use_reentrant=True) if self.nested else self.inner(x)
            return x

        def forward(self, x):
            return checkpoint(self.outer, x, use_reentrant=True) if self.nested else self.outer(x)

    traces = []
    for nested in (False, True):
        model = seeded(lambda nested=nested: Nested(nested))
        path = tmp_path / f"{nested}.h5"
        tracer = tt.trace(model, out=path)
        with tracer.step(0):
            x = torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(0))
            model(x.requires_grad_()).square().sum().backward()
        tracer.close()
        traces.append(Trace(path))
    plain, recomputed = traces
    assert set(recomputed.entries) == set(plain.entries)
    for key in plain.entries:
        np.testing.assert_allclose(
            recomputed.value(*key), plain.value(*key), rtol=1e-5, atol=1e-6, err_msg=str(key)
        )


def test_a_pass_that_computes_a_penalty_records_nothing(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    x = torch.randn(5, 3).requires_grad_()
    tracer = tt.trace(model, out=tmp_path / "run.h5")
    with tracer.step(0):
        y = model(x)
        (slope,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        (y.mean() + (slope.norm(dim=1) - 1).square().mean()).backward()
        tracer.main_grads()
    tracer.close()
    trace = Trace(tmp_path / "run.h5")
    # The penalty depends on the slopes, not on y itself.
    expected = np.full((5, 1), 0.2, dtype=np.float32)
    np.testing.assert_array_equal(trace.value("grad_output", "2", microbatch=0), expected)
    for name, parameter in model.named_parameters():
        gradient = parameter.grad.numpy()
        np.testing.assert_array_equal(trace.value("param_grad", name, microbatch=0), gradient)


def test_a_backward_that_builds_a_graph_is_recorded(tmp_path):
    model = nn.Linear(3, 1)
    tracer = tt.trace(model, out=tmp_path / "run.h5")
    with tracer.step(0):
        model(torch.ones(2, 3)).sum().backward(create_graph=True)
        tracer.main_grads()
    tracer.close()
    trace = Trace(tmp_path / "run.h5")
    np.testing.assert_array_equal(
        trace.value("grad_output", "(model)", microbatch=0), np.ones((2, 1))
    )


class Passed(torch.autograd.Function):
    """Passes values on as DDP does: of those that nobody uses, no gradient comes back."""

    @staticmethod
    def forward(ctx, *values):
        ctx.set_materialize_grads(False)
        return tuple(value.view_as(value) for value in values)

    @staticmethod
    def backward(ctx, *gradients):
        return gradients


class TwoResults(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        y = self.fc(x)
        return {"used": y.sum(), "unused": (2 * y).sum()}


def test_a_result_without_a_gradient_is_no_complaint(tmp_path, capsys):
    model = seeded(TwoResults)
    tracer = tt.trace(model, out=tmp_path / "run.h5")
    with tracer.step(0):
        results = model(torch.ones(2, 3))
        used, _ = Passed.apply(results["used"], results["unused"])
        used.backward()
    tracer.close()
    assert "left out" not in capsys.readouterr().err
    trace = Trace(tmp_path / "run.h5")
    assert trace.names("grad_output") == ["(model)[used]", "fc"]
    assert "incomplete" not in trace.manifest["run"]
