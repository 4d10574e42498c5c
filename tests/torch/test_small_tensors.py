"""What a small tensor costs: calls are counted, since times depend on the machine."""

from __future__ import annotations

import os
import sys
import threading

import torch
from torch import nn
from trace_reading import Trace

import ttrace_torch as tt
from ttrace_torch.write.background import Writer


class Many(nn.Module):
    """Many parameters of one element each."""

    def __init__(self, count):
        super().__init__()
        self.weights = nn.ParameterList(
            nn.Parameter(torch.tensor([number / count])) for number in range(count)
        )

    def forward(self, x):
        return (torch.cat(list(self.weights)) * x).sum()


def traced(path, count, before_step=lambda: None):
    model = Many(count)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    tracer = tt.trace(model, optimizer, out=path)
    before_step()
    with tracer.step(0):
        with tracer.microbatch(0):
            tracer.loss(model(torch.ones(count))).backward()
        optimizer.step()
    tracer.close()
    assert tracer.failed is None


def test_many_small_tensors_are_handed_over_and_written_together(tmp_path, monkeypatch):
    count, handed, written = 1200, [], []
    give, write = Writer._give, os.pwrite
    monkeypatch.setattr(Writer, "_give", lambda *given: handed.append(given) or give(*given))
    monkeypatch.setattr(os, "pwrite", lambda *given: written.append(given) or write(*given))
    traced(tmp_path / "run.h5", count)
    # Of a thousand tensors each, and two commits.
    assert len(handed) < 12 and len(written) < 12
    trace = Trace(tmp_path / "run.h5")
    trace.check_complete()
    assert len(trace.entries) == 4 * count + 5
    for number in (0, 1, 999, 1000, 1001, count - 1):
        before = torch.tensor([number / count])
        assert trace.value("param", f"weights.{number}") == before
        assert trace.value("param_after_step", f"weights.{number}") == before - 0.5


def test_calls_of_a_small_tensor(tmp_path):
    """Calls of Python's functions in both threads, of 1500 parameters over 500: for each parameter
    220. They were 530, and as many of C, when each tensor went to HDF5 by itself."""

    def calls(path, count):
        found = [0]

        def seen(frame, event, arg):
            found[0] += event == "call"

        def begin():
            threading.setprofile(seen)
            sys.setprofile(seen)

        try:
            traced(path, count, begin)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
        return found[0]

    calls(tmp_path / "first.h5", 10)  # imports
    few, many = calls(tmp_path / "few.h5", 500), calls(tmp_path / "many.h5", 1500)
    assert (many - few) / 1000 < 300, (few, many)


def test_a_module_with_many_parameters(tmp_path):
    traced(tmp_path / "run.h5", 700)
    (root,) = (m for m in Trace(tmp_path / "run.h5").modules.values() if "params" in m)
    assert root["params"] == [f"weights.{number}" for number in range(700)]
