"""The report of a run that recorded little says how to record the layer around its finding."""

from __future__ import annotations

import h5py
import torch
from support.reports import findings, read_report
from support.ttrace_cli import DIVERGED, run_ttrace
from torch import nn

import ttrace_torch as tt

PARAMETER = "layers.1.0.weight"


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def traced(path, broken, kinds=None):
    """One step; `broken`: autograd doubles the gradient of one weight."""
    torch.manual_seed(0)
    model = Model()
    if broken:
        model.get_parameter(PARAMETER).register_hook(lambda gradient: 2 * gradient)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tracer = tt.trace(model, optimizer, out=path, kinds=kinds, steps=0)
    with tracer.step(0):
        tracer.loss(model(torch.ones(2, 4)).square().mean()).backward()
        optimizer.step()
    tracer.close()
    return path


def compared(folder, **options):
    """The text, on one line, and the first finding."""
    runs = [traced(folder / f"{broken}.h5", broken, **options) for broken in (False, True)]
    done = run_ttrace("compare", *runs, "--json", folder / "report.json")
    assert done.returncode == DIVERGED, done.stdout + done.stderr
    return " ".join(done.stdout.split()), findings(read_report(folder / "report.json"))[0]


def test_the_line_records_the_layer_around_a_main_gradient(tmp_path, monkeypatch):
    text, finding = compared(tmp_path, kinds="main_grad,loss,grad_norm")
    assert (finding["key"]["kind"], finding["key"]["name"]) == ("main_grad", PARAMETER)
    line = finding["record_next"]
    assert f"record {line} on both runs" in text
    kinds, modules = line.split(" ")
    assert modules == "TTRACE_MODULES=layers.1,layers.1.*"
    for setting in (kinds, modules):
        monkeypatch.setenv(*setting.split("="))

    text, finding = compared(tmp_path)
    assert (finding["key"]["kind"], finding["key"]["name"]) == ("param_grad", PARAMETER)
    assert "record_next" not in finding
    with h5py.File(tmp_path / "True.h5") as file:
        recorded = file["step_000000/mb_0000"]
        assert set(recorded) >= {"input", "output", "grad_output", "param_grad", "loss"}
        assert set(recorded["output"]) == {"layers.1", "layers.1.0", "layers.1.1"}
