"""Batch norms whose images lie in memory otherwise than the gradient that arrives: the loop of
PyTorch that takes them rounds on the way, and audit holds what it does."""

import pytest
import torch
from support.ttrace_cli import DIVERGED, MATCH, run_ttrace
from torch import nn

import ttrace_torch as tt

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
# The layout of the images, and of their gradient.
LAYOUTS = {
    "last_first": (torch.channels_last, torch.contiguous_format),
    "first_last": (torch.contiguous_format, torch.channels_last),
}


class Laid(torch.autograd.Function):
    """Hands on its input, and gives the gradient a layout."""

    @staticmethod
    def forward(ctx, x, layout):
        ctx.layout = layout
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.contiguous(memory_format=ctx.layout), None


def layout_of(x):
    first = torch.contiguous_format
    return first if x.is_contiguous() else torch.channels_last


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(12, 20, 16))

    def forward(self, x):
        return (x * self.scale).contiguous(memory_format=layout_of(x))


class Images(nn.Module):
    def __init__(self, dtype, weights, layout):
        super().__init__()
        torch.manual_seed(0)
        self.layout = layout
        self.stem = Scaled().to(dtype)
        self.norm = nn.BatchNorm2d(12)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        self.norm.to(weights)

    def forward(self, x):
        return (Laid.apply(self.norm(self.stem(x)), self.layout).float() ** 3).mean()


def trained(folder, dtype, weights, layouts, fault=None):
    model = Images(dtype, weights, layouts[1])
    if fault is not None:
        fault(model)
    tracer = tt.trace(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        out=folder / "run.h5",
        specification=None if fault else folder / "specification.json",
    )
    random = torch.Generator().manual_seed(1)
    images = (torch.randn(4, 12, 20, 16, generator=random) * 2 + 1).to(dtype)
    with tracer.step(0):
        tracer.loss(model(images.contiguous(memory_format=layouts[0]))).backward()
    tracer.close()


def audited(folder):
    return run_ttrace("audit", folder / "run.h5", "--specification", folder / "specification.json")


@pytest.mark.parametrize("layouts", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("weights", ["own", "fp32"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_healthy_step_holds_and_a_scaled_gradient_is_found(tmp_path, dtype, weights, layouts):
    kinds = DTYPES[dtype], DTYPES[dtype if weights == "own" else weights]
    trained(tmp_path, *kinds, layouts)
    done = audited(tmp_path)
    assert done.returncode == MATCH, done.stdout

    def scaled(model):
        def times(module, gradients, _):
            return (gradients[0] * 1.05,)

        model.norm.register_full_backward_hook(times)

    trained(tmp_path, *kinds, layouts, scaled)
    done = audited(tmp_path)
    assert done.returncode == DIVERGED, done.stdout
    assert "first at stem · grad_output" in " ".join(done.stdout.split()), done.stdout
