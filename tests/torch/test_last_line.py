"""What the collector says when it is done: to a person, and to `ttrace run`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from torch import nn

import ttrace_torch as tt
from ttrace_torch.base.step_times import StepTimes
from ttrace_torch.layout.mesh import Mesh
from ttrace_torch.write.kind import TraceKind
from ttrace_torch.write.last_line import last_line


def train(steps: int, **options: object) -> tt.Tracer:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tracer = tt.trace(model, optimizer, **options)
    for step in range(steps):
        with tracer.step(step):
            tracer.loss(model(torch.ones(2, 4)).sum()).backward()
            optimizer.step()
        optimizer.zero_grad()
    return tracer


@pytest.fixture
def said(monkeypatch, capfd):
    """Trains under these variables, and gives the last line of stderr."""

    def last(steps=3, **variables):
        for name, value in variables.items():
            monkeypatch.setenv(f"TTRACE_{name}", str(value))
        train(steps).close()
        return capfd.readouterr().err.splitlines()[-1]

    return last


def test_a_reference_says_how_to_go_on(tmp_path, said):
    path = tmp_path / "ref.h5"
    line = said(OUT=path)
    match = re.fullmatch(
        r"ttrace: step 0, (\d+) tensors, ([\d.]+) kB, \d+\.\d s more than a later, untraced step "
        rf"-> {path}\. Next: TTRACE_OUT=run/ torchrun \.\.\.; ttrace compare {path} run/",
        line,
    )
    assert match, line
    assert int(match[1]) > 10
    assert float(match[2]) == pytest.approx(path.stat().st_size / 1000, abs=1)


def test_steps_and_noise_runs(tmp_path, said):
    line = said(OUT=tmp_path / "noise1.h5", NOISE=1, STEPS="0-1", steps=2)
    assert line.startswith("ttrace: steps 0 and 1, ") and ", in 0." in line
    assert line.endswith(f"Next: ttrace compare REF RUN --noise {tmp_path / 'noise1.h5'}")


def test_a_candidate_and_a_rewritten_run():
    mesh, path = Mesh({"dp": 2, "tp": 1}), Path("run")
    line = last_line(path, TraceKind(mesh), [0, 1, 2, 5], 1, 1_500_000_000, "in 1.0 s")
    assert line == (
        "4 steps from 0 to 5, 1 tensor, 1.5 GB, in 1.0 s -> run. Next: ttrace compare REF run"
    )
    line = last_line(path, TraceKind(mesh, plan="abc"), [7], 2, 999, "")
    assert line == (
        "step 7, 2 tensors, 999 B -> run. Next: the other run under the same plan; "
        "ttrace compare REF RUN"
    )


def test_a_script_that_says_where_is_told_nothing(tmp_path, capfd):
    train(2, out=tmp_path / "run.h5").close()
    assert capfd.readouterr().err == ""


def test_the_cost_of_a_step(monkeypatch):
    now = iter([0.0, 5.0, 5.0, 6.0, 6.0, 8.0, 8.0, 9.0])
    monkeypatch.setattr("ttrace_torch.base.step_times.time.perf_counter", lambda: next(now))
    times = StepTimes()
    assert times.cost() == ""
    times.begin(True)  # 5 s
    times.begin(False)  # 1 s
    assert times.cost() == "in 5.0 s"
    times.begin(True)  # 2 s
    times.begin(False)  # 1 s
    times.end()
    times.end()
    assert times.cost() == "2.5 s more than an untraced step"


def test_who_waits_is_told_at_the_last_step(tmp_path, monkeypatch, capfd):
    done, path = tmp_path / "ref.done", tmp_path / "ref.h5"
    for name, value in {"OUT": path, "STEPS": "0,2", "DONE": done}.items():
        monkeypatch.setenv(f"TTRACE_{name}", str(value))
    tracer = train(2)
    assert not done.exists()
    tracer.close()
    assert json.loads(done.read_text())["steps"] == [0]
    tracer = train(4)  # never closed by the script
    told = json.loads(done.read_text())
    assert told["schema"] == "ttrace.done/1" and told["steps"] == [0, 2] and len(told["run"]) == 32
    line = next(one for one in capfd.readouterr().err.splitlines() if "steps 0 and 2" in one)
    assert line.endswith(f"-> {path}")
    assert tracer.active and list(tmp_path.glob("*.done.*")) == []


def test_who_waits_is_told_of_a_failure(tmp_path, monkeypatch):
    done = tmp_path / "ref.done"
    monkeypatch.setenv("TTRACE_DONE", str(done))
    monkeypatch.setenv("TTRACE_OUT", str(tmp_path / "ref.h5"))
    monkeypatch.setenv("TTRACE_KINDS", "outptu")
    tracer = train(1)
    assert "outptu" in json.loads(done.read_text())["failed"] and not tracer.active
    monkeypatch.delenv("TTRACE_KINDS")
    done.unlink()
    (tmp_path / "file").touch()
    monkeypatch.setenv("TTRACE_OUT", str(tmp_path / "file" / "run"))
    train(2)
    assert "rank 0 stopped recording" in json.loads(done.read_text())["failed"]


def test_nobody_waits(tmp_path, monkeypatch):
    monkeypatch.setenv("TTRACE_OUT", str(tmp_path / "ref.h5"))
    monkeypatch.delenv("TTRACE_DONE", raising=False)
    tracer = train(3)
    assert not tracer._closed
    tracer.close()
    assert [path.name for path in tmp_path.iterdir()] == ["ref.h5"]
