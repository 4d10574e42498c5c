"""Reports do not depend on the C library: where the processor lacks AVX2 or FMA, it computes exp,
log, sin and pow in other ways, and their last bits differ. Here its variants are switched off."""

import itertools
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from support.ttrace_cli import MATCH, TESTDATA, run_ttrace
from torch import nn

import ttrace_torch as tt

# Two spellings: glibc 2.33 renamed what can be used. Any other C library ignores the variable.
WITHOUT = "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX2_Usable,-FMA_Usable"
INSTRUCTION_SETS = ("x86-64", "x86-64-v3")
FUNCTIONS = [
    F.gelu,
    lambda x: F.gelu(x, approximate="tanh"),
    F.softplus,
    F.silu,
    torch.exp,
    torch.expm1,
    torch.erf,
    torch.sin,
    torch.cos,
    torch.tanh,
    lambda x: (x * x + 1).log(),
    lambda x: torch.log1p(x * x),
    lambda x: (x * x + 1).pow(1.7),
    lambda x: x.pow(3),
    lambda x: F.log_softmax(x, -1),
    lambda x: F.layer_norm(x, x.shape[-1:]),
]


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.ones(64, dtype=torch.float64))

    def forward(self, x):
        return self.function(x * self.weight)


class AllFunctions(nn.Module):
    def __init__(self):
        super().__init__()
        self.functions = nn.ModuleList(Function(function) for function in FUNCTIONS)

    def forward(self, x):
        return sum(function(x).square().sum() for function in self.functions)


def library_has_variants():
    script = "import math; print([math.exp(i / 77).hex() for i in range(9000)])"
    printed = {
        subprocess.run(
            [sys.executable, "-c", script], env={"GLIBC_TUNABLES": tunables}, capture_output=True
        ).stdout
        for tunables in ("", WITHOUT)
    }
    return len(printed) == 2


def reports_of(tmp_path, *arguments):
    reports = set()
    for tunables, isa in itertools.product(("", WITHOUT), INSTRUCTION_SETS):
        out = tmp_path / "report.json"
        done = run_ttrace(
            *arguments,
            *("--isa", isa, "--json", out),
            environment={"GLIBC_TUNABLES": tunables},
        )
        assert done.returncode == MATCH, done.stdout + done.stderr
        report = out.read_text()
        assert report.count('"environment"') == 1
        reports.add(report.split('"environment"')[0])
    return reports


@pytest.fixture(autouse=True)
def _has_variants():
    if not library_has_variants():
        pytest.skip("the C library has no variants with AVX2 or FMA on this machine")


def test_audit_of_functions_in_binary64(tmp_path):
    """Its own arithmetic is binary64 too, so that errors are differences of last bits."""
    torch.manual_seed(1)
    model = AllFunctions()
    specification = tmp_path / "specification.json"
    tracer = tt.trace(
        model,
        torch.optim.Adam(model.parameters(), lr=0.1),
        out=tmp_path / "run.h5",
        steps=[0],
        specification=specification,
    )
    with tracer.step(0):
        tracer.loss(model(torch.randn(8, 64, dtype=torch.float64))).backward()
    tracer.close()
    arguments = ("audit", tmp_path / "run.h5", "--specification", specification)
    assert len(reports_of(tmp_path, *arguments)) == 1


@pytest.mark.parametrize("run", ["tp2sp", "noise1.h5"])
def test_audit_and_compare_of_a_small_gpt(tmp_path, run):
    specification = ("--specification", TESTDATA / "specification.json")
    assert len(reports_of(tmp_path, "audit", TESTDATA / run, *specification)) == 1
    noise = ("--noise", TESTDATA / "noise2.h5", "--noise", TESTDATA / "noise3.h5")
    assert len(reports_of(tmp_path, "compare", TESTDATA / "ref.h5", TESTDATA / run, *noise)) == 1
