"""The data flow: which outputs reach which inputs."""

from __future__ import annotations

import gc
import weakref

import torch
from small_models import WIDTH, TiedGPT, seeded, train_step
from torch import nn
from torch.utils.checkpoint import checkpoint
from trace_reading import Trace

import ttrace_torch as tt


def flow_of(model, tmp_path, *args, loss=None):
    """name -> (inputs, computed_from) of one traced forward."""
    tracer = tt.trace(model, out=tmp_path / "run.h5")
    with tracer.step(0):
        output = model(*args)
        if loss is not None:
            tracer.loss(loss(output))
    tracer.close()
    modules = Trace(tmp_path / "run.h5").modules
    return {name: (m.get("inputs"), m.get("computed_from")) for name, m in modules.items()}


def test_residual_paths_of_a_transformer(tmp_path):
    model = seeded(TiedGPT)
    tracer = tt.trace(model, out=tmp_path / "run.h5")
    train_step(model, tracer, microbatches=2)
    tracer.close()
    modules = Trace(tmp_path / "run.h5").modules
    inputs = {name: entry.get("inputs") for name, entry in modules.items()}
    assert inputs == {
        "(model)": [],
        "embedding": [],
        "layers.0": ["embedding"],
        "layers.0.norm1": ["embedding"],
        "layers.0.attn": ["layers.0.norm1"],
        "layers.0.norm2": ["embedding", "layers.0.attn"],
        "layers.0.mlp": ["layers.0.norm2"],
        "layers.0.mlp.0": ["layers.0.norm2"],
        "layers.0.mlp.1": ["layers.0.mlp.0"],
        "layers.0.mlp.2": ["layers.0.mlp.1"],
        "layers.1": ["layers.0"],
        "layers.1.norm1": ["layers.0"],
        "layers.1.attn": ["layers.1.norm1"],
        "layers.1.norm2": ["layers.0", "layers.1.attn"],
        "layers.1.mlp": ["layers.1.norm2"],
        "layers.1.mlp.0": ["layers.1.norm2"],
        "layers.1.mlp.1": ["layers.1.mlp.0"],
        "layers.1.mlp.2": ["layers.1.mlp.1"],
        "norm": ["layers.1"],
        "head": ["norm"],
        "loss": None,
    }
    computed = {n: m["computed_from"] for n, m in modules.items() if "computed_from" in m}
    assert computed == {
        "(model)": ["head"],
        "layers.0": ["embedding", "layers.0.attn", "layers.0.mlp"],
        "layers.0.mlp": ["layers.0.mlp.2"],
        "layers.1": ["layers.0", "layers.1.attn", "layers.1.mlp"],
        "layers.1.mlp": ["layers.1.mlp.2"],
        "loss": ["(model)"],
    }
    assert modules["layers.0.attn"] == {
        "name": "layers.0.attn",
        "class": "Linear",
        "op": "linear",
        "called_at": modules["layers.0.attn"]["called_at"],
        "params": ["layers.0.attn.weight", "layers.0.attn.bias"],
        "inputs": ["layers.0.norm1"],
    }
    line, function = modules["layers.0.attn"]["called_at"].split(" ")
    assert line.startswith("small_models.py:") and function == "Block.forward"


class Router(nn.Module):
    """Returns weights, indices and a view of its input."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(WIDTH, 4)

    def forward(self, x):
        values, indices = self.gate(x).topk(2)
        return values.softmax(-1), indices, x[:, 1:]


class Expert(nn.Module):
    def forward(self, weights, indices=None, rest=None):
        result = weights.sum()
        if indices is not None:
            result = result + indices.sum()
        return result if rest is None else result + rest.sum()


class RoutedModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.inlet = nn.Linear(WIDTH, WIDTH)
        self.router = Router()
        self.left, self.right, self.third = Expert(), Expert(), Expert()

    def forward(self, x):
        weights, indices, rest = self.router(self.inlet(x))
        left = self.left(weights.detach(), indices=indices)
        right = self.right(rest.square(), indices.clone())
        return left + right + self.third(weights * 2, rest=rest)


def test_tuples_integers_detached_tensors_and_views(tmp_path):
    flow = flow_of(seeded(RoutedModel), tmp_path, torch.randn(3, WIDTH))
    assert flow["router"] == (["inlet"], ["inlet", "router.gate"])
    # Without a graph the storage tells, as long as the tensor itself is passed on.
    assert flow["left"][0] == ["router", "router[1]"]
    assert flow["right"][0] == ["router[2]"]
    assert flow["third"][0] == ["router", "router[2]"]
    # What is computed from a tensor without a graph leaves no trace of it.
    assert flow["(model)"][1] == ["right", "third"]


def test_parts_of_one_split_are_told_apart(tmp_path):
    class Split(nn.Module):
        def forward(self, x):
            return (x * 2).chunk(2, dim=-1)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.split, self.a, self.b = Split(), nn.Linear(4, 1), nn.Linear(4, 1)

        def forward(self, x):
            a, b = self.split(x)
            return self.b(b) + self.a(a)

    for grad in (True, False):
        flow = flow_of(seeded(Model), tmp_path, torch.randn(2, WIDTH, requires_grad=grad))
        assert flow["a"][0] == ["split"]
        assert flow["b"][0] == ["split[1]"]


def test_a_model_without_gradients_is_known_by_its_storages(tmp_path):
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(inplace=True), nn.Linear(WIDTH, 1))
    with torch.no_grad():
        flow = flow_of(model, tmp_path, torch.randn(2, WIDTH))
    assert flow["1"][0] == ["0"]
    assert flow["2"][0] == ["1"]
    assert flow["(model)"] == ([], ["2"])


def test_custom_autograd_functions_are_walked_through(tmp_path):
    class Gather(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.variable = "not a tensor"
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 1)

        def forward(self, x):
            return self.b(Gather.apply(self.a(x)))

    assert flow_of(seeded(Model), tmp_path, torch.randn(2, WIDTH))["b"][0] == ["a"]


def test_parameters_of_modules_that_are_never_called(tmp_path):
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)
            self.scales = nn.ParameterList([torch.ones(WIDTH)])

        def forward(self, x):
            return self.attention(x, x, x)[0] * self.scales[0]

    tracer = tt.trace(seeded(Attention), out=tmp_path / "run.h5")
    model = tracer._job.names.model
    with tracer.step(0):
        model(torch.randn(2, 3, WIDTH)).sum().backward()
    tracer.close()
    modules = Trace(tmp_path / "run.h5").modules
    assert modules["(model)"]["params"] == ["scales.0"]
    assert "attention.out_proj.weight" in modules["attention"]["params"]
    assert "attention.out_proj" not in modules


def test_a_recomputation_sees_the_flow_of_its_first_pass(tmp_path):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
            self.later = nn.Identity()

        def forward(self, x):
            x = self.a(x)
            y = checkpoint(lambda x: self.c(self.b(x).sin()), x, use_reentrant=True)
            # The same tensor, known by another name when the backward comes.
            return y + self.later(x)

    model = seeded(Model)
    tracer = tt.trace(model, out=tmp_path / "run.h5")
    with tracer.step(0):
        model(torch.randn(2, WIDTH)).sum().backward()
    tracer.close()
    modules = Trace(tmp_path / "run.h5").modules
    assert modules["b"]["inputs"] == ["a"]
    assert modules["c"]["inputs"] == ["b"]
    assert modules["(model)"]["computed_from"] == ["c", "later"]


def test_an_output_overwritten_in_place_is_still_known(tmp_path):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 1)

        def forward(self, x):
            return self.b(self.a(x).relu_())

    for shape in ((2,), (2, 3)):
        assert flow_of(seeded(Model), tmp_path, torch.randn(*shape, WIDTH))["b"][0] == ["a"]


def test_many_paths_do_not_take_many_walks(tmp_path):
    class Diamonds(nn.Module):
        """2^60 paths from output to input."""

        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 1)

        def forward(self, x):
            x = self.a(x)
            for _ in range(60):
                x = x.sin() + x.cos()
            return self.b(x)

    assert flow_of(seeded(Diamonds), tmp_path, torch.randn(2, WIDTH))["b"][0] == ["a"]


def test_the_graph_is_let_go_after_the_step(tmp_path):
    model = seeded(TiedGPT)
    tracer = tt.trace(model, out=tmp_path / "run.h5")
    with tracer.step(0):
        output = model(torch.zeros(1, 2, dtype=torch.long))
        node = weakref.ref(output.untyped_storage())
        del output
    gc.collect()
    assert node() is None
    tracer.close()


def test_the_flow_comes_from_the_first_traced_step(tmp_path):
    model = seeded(TiedGPT)
    tracer = tt.trace(model, out=tmp_path / "run.h5")
    train_step(model, tracer, step=3)
    train_step(model, tracer, step=4)
    tracer.close()
    assert len(Trace(tmp_path / "run.h5").manifest["modules"]) == 21


def test_the_operations_between_modules_are_named(tmp_path):
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(WIDTH))
            self.first = nn.Linear(WIDTH, WIDTH)
            self.second = nn.Linear(WIDTH, WIDTH)

        def forward(self, x):
            x = self.first(x)
            y = self.second(torch.tanh(x) * self.scale)
            return (x + y + x).exp()

    model = Mixed()
    flow_of(model, tmp_path, torch.ones(2, WIDTH), loss=lambda output: output.square().mean())
    modules = Trace(tmp_path / "run.h5").modules
    assert "via" not in modules["first"]
    assert modules["second"]["via"] == ["MulBackward0", "TanhBackward0"]
    assert "computed_via" not in modules["second"]
    assert modules["(model)"]["computed_via"] == ["ExpBackward0", "AddBackward0"]
    assert modules["loss"]["computed_via"] == ["MeanBackward0", "PowBackward0"]


def test_many_operations_are_cut_short(tmp_path):
    def long_loss(output):
        for name in ("sin", "cos", "tanh", "exp", "sqrt", "atan", "sinh", "asinh", "erf", "log1p"):
            output = getattr(output, name)()
        for name in ("sigmoid", "relu", "abs", "neg", "square", "expm1", "ceil", "floor", "sum"):
            output = getattr(output, name)()
        return output

    flow_of(nn.Linear(3, 3), tmp_path, torch.ones(2, 3), loss=long_loss)
    operations = Trace(tmp_path / "run.h5").modules["loss"]["computed_via"]
    assert len(operations) == 16 and operations[:2] == ["SumBackward0", "FloorBackward0"]
