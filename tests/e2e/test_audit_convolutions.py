"""Convolutions of many forms: audit holds a healthy step, and finds a fault in each result."""

import pytest
import torch
import torch.nn.functional as F
from support.audits import audited
from support.ttrace_cli import DIVERGED, MATCH
from torch import nn

import ttrace_torch as tt

CHANNELS = 8
# Name -> the module, and the sizes of the input's dimensions of space.
FORMS = {
    "patches": (lambda: nn.Conv2d(CHANNELS, 12, 2, stride=2), (64, 64)),
    "padded": (lambda: nn.Conv2d(CHANNELS, 6, 3, padding=1), (9, 7)),
    "uneven": (lambda: nn.Conv2d(CHANNELS, 6, (3, 2), stride=(2, 3), padding=(2, 1)), (12, 11)),
    "dilated": (lambda: nn.Conv2d(CHANNELS, 6, 3, padding=2, dilation=2), (9, 9)),
    "groups": (lambda: nn.Conv2d(CHANNELS, 12, 3, padding=1, groups=4, bias=False), (8, 8)),
    "depthwise": (lambda: nn.Conv2d(CHANNELS, CHANNELS, 7, padding=3, groups=CHANNELS), (10, 10)),
    "pointwise": (lambda: nn.Conv2d(CHANNELS, 16, 1), (6, 6)),
    # Wider than the kernel needs, so that the cut away part of the input gets no gradient.
    "cut": (lambda: nn.Conv2d(CHANNELS, 6, 1, stride=2, padding=1), (8, 8)),
    "causal": (lambda: nn.Conv1d(CHANNELS, CHANNELS, 4, padding=3, groups=CHANNELS), (20,)),
    "line": (lambda: nn.Conv1d(CHANNELS, 10, 5, stride=3, dilation=2), (31,)),
    "volume": (lambda: nn.Conv3d(CHANNELS, 4, 2, stride=2, padding=1), (4, 6, 5)),
    "transposed": (
        lambda: nn.ConvTranspose2d(
            CHANNELS, 6, 3, stride=2, padding=1, output_padding=1, groups=2
        ),
        (5, 6),
    ),
    "transposed_line": (lambda: nn.ConvTranspose1d(CHANNELS, 6, 4, stride=2, dilation=2), (9,)),
}  # fmt: skip


# Terms of one sign: what a kernel's one accumulator loses of them shows in the bias.
COHERENT = "patches"


class First(nn.Module):
    """A scale, so that a gradient of the input is recorded as well."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(CHANNELS))

    def forward(self, x):
        return x * self.weight.view(-1, *(1,) * (x.dim() - 2))


class SideBySide(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.ModuleDict({name: First() for name in FORMS})
        self.forms = nn.ModuleDict({name: make() for name, (make, _) in FORMS.items()})

    def forward(self, inputs, gradients):
        terms = [
            (form(self.first[name](inputs[name])).float() * gradients[name]).sum()
            for name, form in self.forms.items()
        ]
        return sum(terms)


def trained(folder, dtype, fault=None):
    """Traces a step; `fault` changes the model behind the tracer's back."""
    torch.manual_seed(1)
    model = SideBySide().to(dtype)
    inputs = {name: torch.randn(3, CHANNELS, *size).to(dtype) for name, (_, size) in FORMS.items()}
    with torch.no_grad():
        gradients = {n: torch.randn(form(inputs[n]).shape) for n, form in model.forms.items()}
    gradients[COHERENT] = gradients[COHERENT].abs()
    if fault is not None:
        fault(model)
    tracer = tt.trace(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        out=folder / "run.h5",
        specification=None if fault else folder / "specification.json",
    )
    with tracer.step(0):
        tracer.loss(model(inputs, gradients)).backward()
    tracer.close()


def findings(report):
    by_id = {result["id"]: result["key"] for result in report["results"]}
    keys = [by_id[number] for finding in report["findings"] for number in finding["members"]]
    return {(key["kind"], key["name"]) for key in keys}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_healthy_convolutions_hold(tmp_path, dtype):
    trained(tmp_path, dtype)
    done, report = audited(tmp_path / "run.h5", tmp_path / "specification.json")
    assert done.returncode == MATCH, done.stdout
    assert report["coverage"]["judged"] == report["coverage"]["tensors"] > 7 * len(FORMS)
    assert report["sharpness"]["worst_share"] < 0.8, report["sharpness"]


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("healthy")
    trained(folder, torch.float32)
    return folder / "specification.json"


def scaled(parameter, factor):
    parameter.register_hook(lambda gradient: gradient * factor)


def test_a_scaled_gradient_of_each_is_found(healthy, tmp_path):
    """One run with a weight gradient too large in every form: each is named."""

    def fault(model):
        for form in model.forms.values():
            scaled(form.weight, 1.05)
            if form.bias is not None:
                scaled(form.bias, 0.95)

    trained(tmp_path, torch.float32, fault)
    done, report = audited(tmp_path / "run.h5", healthy)
    assert done.returncode == DIVERGED
    expected = {
        ("param_grad", f"forms.{name}.{which}")
        for name, (make, _) in FORMS.items()
        for which, _ in make().named_parameters()
    }
    assert findings(report) == expected


def flipped(form):
    """The kernel the other way round: a convolution where a correlation is meant."""
    forward, weight = form.forward, form.weight
    dims = tuple(range(2, weight.dim()))

    def run(x):
        kept = weight.data
        weight.data = kept.flip(dims)
        try:
            return forward(x)
        finally:
            weight.data = kept

    form.forward = run


def elsewhere(name):
    """The same shape, but windows at other places."""

    def fault(model):
        form = model.forms[name]
        if name == "dilated":
            form.forward = lambda x: F.conv2d(x, form.weight, form.bias, padding=1)
        elif name == "groups":
            form.forward = lambda x: F.conv2d(x.roll(2, 1), form.weight, None, padding=1, groups=4)
        else:
            forward = form.forward
            form.forward = lambda x: forward(x.roll(1, -1))

    return fault


@pytest.mark.parametrize("name", ["patches", "uneven", "dilated", "groups", "causal", "transposed"])
def test_windows_at_other_places_are_found(healthy, tmp_path, name):
    trained(tmp_path, torch.float32, elsewhere(name))
    done, report = audited(tmp_path / "run.h5", healthy)
    assert done.returncode == DIVERGED
    assert ("output", f"forms.{name}") in findings(report)


@pytest.mark.parametrize("name", ["padded", "depthwise", "line"])
def test_a_flipped_kernel_is_found(healthy, tmp_path, name):
    trained(tmp_path, torch.float32, lambda model: flipped(model.forms[name]))
    done, report = audited(tmp_path / "run.h5", healthy)
    assert done.returncode == DIVERGED
    assert any(name in place for _, place in findings(report))
