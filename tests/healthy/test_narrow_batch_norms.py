"""BatchNorm on a CPU with parameters in bf16 keeps the factor and the mean of every channel in
bf16: a bug of torch, which is named."""

import json

import pytest
import torch
from support.ttrace_cli import run_ttrace
from torch import nn

import ttrace_torch as tt

CHANNELS, MEAN = 16, 10


class Norm(nn.BatchNorm2d):
    factor = 1.0

    def forward(self, x):
        return super().forward(x) * self.factor if self.factor != 1 else super().forward(x)


class Model(nn.Module):
    """Norms of two elements a channel, whose mean is ten times their spread."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.up = nn.Conv2d(CHANNELS, CHANNELS, 1)
        self.norm = Norm(CHANNELS)
        self.down = nn.Linear(CHANNELS, 4)
        with torch.no_grad():
            nn.init.dirac_(self.up.weight)
            self.up.bias.fill_(MEAN)

    def forward(self, x):
        return self.down(self.norm(self.up(x)).flatten(1))


def causes(folder, layout=torch.contiguous_format, dtype=torch.bfloat16, factor=1.0):
    """The exit code of `audit`, and what it names as causes of a wrong output of the norm."""
    model = Model().to(dtype)
    model.norm.factor = factor
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2, CHANNELS, 1, 1, generator=generator).to(dtype, memory_format=layout)
    tracer = tt.trace(
        model,
        optimizer,
        out=folder / "run.h5",
        specification=folder / "specification.json" if factor == 1 else None,
    )
    with tracer.step(0):
        loss = model(x).float().square().mean()
        tracer.loss(loss).backward()
        optimizer.step()
    tracer.close()
    flags = ("--specification", folder / "specification.json", "--json", folder / "report.json")
    done = run_ttrace("audit", folder / "run.h5", *flags)
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    named = [
        cause
        for finding in report["findings"]
        if any(key.split("/")[2:4] == ["output", "norm"] for key in finding["members"])
        for cause in finding.get("causes", [])
    ]
    return done.returncode, named


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_it_is_named(tmp_path, layout):
    code, named = causes(tmp_path, layout)
    assert code == 1
    assert named[0]["name"] == "narrow_coefficients" and named[0]["unexplained"] < 0.01, named


def test_float32_parameters_are_right(tmp_path):
    code, named = causes(tmp_path, dtype=torch.float32)
    assert code == 0 and not named


@pytest.mark.parametrize("factor", [-1.0, 0.5, 1.25])
def test_another_fault_of_the_output_has_another_cause(tmp_path, factor):
    causes(tmp_path)
    code, named = causes(tmp_path, factor=factor)
    assert code == 1
    assert "narrow_coefficients" not in [cause["name"] for cause in named], named
