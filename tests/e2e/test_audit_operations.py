"""Operations of torch, each alone, forward and backward, over inputs that strain their roundings:
audit finds nothing, and is not near to finding something."""

import json

import pytest
import torch
import torch.nn.functional as F
from support.ttrace_cli import run_ttrace
from torch import nn

import ttrace_torch as tt

SHAPE = (2, 12, 32)
WIDTH = SHAPE[-1]
ELEMENTWISE = {
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "relu": F.relu,
    "relu6": F.relu6,
    "leaky_relu": F.leaky_relu,
    "softplus": F.softplus,
    "softplus_by_half": lambda x: F.softplus(x, beta=0.5),
    "softshrink": lambda x: F.softshrink(x, 0.25),
    "hardshrink": lambda x: F.hardshrink(x, 0.25),
    "threshold": lambda x: F.threshold(x, 0.125, -1.0),
    "logsigmoid": F.logsigmoid,
    "mish": F.mish,
    "hardswish": F.hardswish,
    "softsign": F.softsign,
    "exp": torch.exp,
    "expm1": torch.expm1,
    "erf": torch.erf,
    "erfc": torch.erfc,
    "sin": torch.sin,
    "tan": torch.tan,
    "asin": lambda x: torch.asin(0.9 * torch.tanh(x)),
    "acos": lambda x: torch.acos(0.9 * torch.tanh(x)),
    "atan": torch.atan,
    "atan2": lambda x: torch.atan2(x, x.flip(-1)),
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "asinh": torch.asinh,
    "acosh": lambda x: torch.acosh(x * x + 1.25),
    "atanh": lambda x: torch.atanh(0.9 * torch.tanh(x)),
    "round": lambda x: x * x.round(),
    "abs": torch.abs,
    "clamp": lambda x: x.clamp(-1, 1),
    "clamp_without_limit": lambda x: x.clamp(0.25, float("inf")),
    "cube": lambda x: x.pow(3),
    "sqrt": lambda x: (x * x + 1).sqrt(),
    "rsqrt": lambda x: (x * x + 1).rsqrt(),
    "log": lambda x: (x * x + 1).log(),
    "log10": lambda x: (x * x + 1).log10(),
}
BY_ROWS = {
    "softmax": lambda x: F.softmax(x, -1),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "logsumexp": lambda x: x.logsumexp(-1),
    "sum": lambda x: x.sum(-1),
    "mean": lambda x: x.mean(-1),
    "variance": lambda x: x.var(-1),
    "norm": lambda x: x.norm(dim=-1),
    "normalize": lambda x: F.normalize(x, dim=-1),
    "cumsum": lambda x: x.cumsum(-1),
    "cumprod": lambda x: (1 + 0.5 * torch.tanh(x)).cumprod(-1),
    "max": lambda x: x.max(-1).values,
    "median": lambda x: apart(x).median(-1).values,
    "kthvalue": lambda x: apart(x).kthvalue(3, -1).values,
    "cdist": lambda x: torch.cdist(x.float(), x.float().flip(0)),
    "far_pairs": lambda x: torch.cdist(x.float().view(1, -1, 8), x.float().view(1, -1, 8) + 3),
    "manhattan": lambda x: torch.cdist(x.float(), 0.5 * x.float(), p=1),
    "cross": lambda x: torch.linalg.cross(x[..., :3], x[..., 3:6]),
    "trace": lambda x: x[0].trace() + x.diagonal(1, -2, -1).sum(),
    "scattered": lambda x: x.masked_scatter(torch.arange(WIDTH) % 3 == 0, x[:, :5].flip(1)),
    "searched": lambda x: x * torch.searchsorted(torch.linspace(-2, 2, 9).to(x.dtype), x),
    "amax": lambda x: x.amax(-1),
    "layer_norm": lambda x: F.layer_norm(x, (WIDTH,)),
    "rms_norm": lambda x: F.rms_norm(x, (WIDTH,)),
    "group_norm": lambda x: F.group_norm(x.transpose(-1, -2), 4),
}


def attention(x):
    """With one tensor as queries, keys and values: the gradients of all three are added."""
    heads = x.unflatten(-1, (4, -1)).transpose(-3, -2)
    return F.scaled_dot_product_attention(heads, heads, heads, is_causal=True)


def apart(x):
    """No two equal in a row: a kernel may choose either."""
    return x.float() + torch.arange(WIDTH) / 4096


OPERATIONS = {**ELEMENTWISE, **BY_ROWS, "attention": attention}
# Factor and offset of normal numbers, and the size of the gradients. "cancelling": gradients that
# nearly follow the outputs, so that those of norms and softmaxes cancel.
INPUTS = {
    "plain": (1, 0, 1),
    "small": (0.05, 0, 1),
    "wide": (6, 0, 1),
    "shifted": (1, 30, 1),
    "negative": (0.3, -3, 1),
    "cancelling": (1, 0, 1e-6),
}


class Alone(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return x * self.weight


class SideBySide(nn.Module):
    def __init__(self):
        super().__init__()
        self.scaled = nn.ModuleDict({name: Scale() for name in OPERATIONS})
        self.results = nn.ModuleDict({name: Alone(f) for name, f in OPERATIONS.items()})

    def forward(self, x, gradients):
        terms = [
            (result(self.scaled[name](x)).float() * gradients[name]).sum()
            for name, result in self.results.items()
        ]
        return sum(terms)


def gradients_of(model, x, size):
    with torch.no_grad():
        outputs = {name: result(x) for name, result in model.results.items()}
    follow = size < 1e-3
    return {
        name: torch.randn(y.shape) * size + (y.float() if follow else 0)
        for name, y in outputs.items()
    }


@pytest.mark.parametrize(
    ("dtype", "inputs"),
    [(torch.float32, inputs) for inputs in INPUTS]
    + [(torch.bfloat16, inputs) for inputs in ("plain", "shifted", "cancelling")],
)
def test_every_operation_follows_from_its_inputs(tmp_path, dtype, inputs):
    factor, offset, size = INPUTS[inputs]
    torch.manual_seed(1)
    model = SideBySide().to(dtype)
    x = (torch.randn(SHAPE) * factor + offset).to(dtype)
    gradients = gradients_of(model, x, size)
    tracer = tt.trace(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        out=tmp_path / "run.h5",
        steps=[0],
        specification=tmp_path / "specification.json",
    )
    with tracer.step(0):
        tracer.loss(model(x, gradients)).backward()
    tracer.close()
    done = run_ttrace(
        "audit",
        tmp_path / "run.h5",
        "--specification",
        tmp_path / "specification.json",
        "--json",
        tmp_path / "report.json",
    )
    assert done.returncode == 0, done.stdout
    report = json.loads((tmp_path / "report.json").read_text())
    coverage = report["coverage"]
    # Where a function saturates or a gradient cancels, what is left may be all rounding.
    below = coverage.get("below_bound", 0)
    assert below <= (4 if inputs in ("shifted", "cancelling") else 0)
    assert coverage["judged"] + below == coverage["tensors"] > 6 * len(OPERATIONS)
    assert report["sharpness"]["worst_share"] < 0.7, report["sharpness"]
