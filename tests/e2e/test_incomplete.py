"""What a run says that it left out is not missing: `compare` tells it as not recorded."""

from __future__ import annotations

import pytest
import torch
from support.ttrace_cli import DIVERGED, MATCH, run_ttrace
from torch import nn

import ttrace_torch as tt

INCONCLUSIVE = 3


def traced(path, layouts=(), broken=False):
    """One step of a small model on a mesh of one rank."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    if broken:
        with torch.no_grad():
            model[2].weight.mul_(1.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    mesh = tt.Mesh({"tp": 1})
    tracer = tt.trace(model, optimizer, out=path, mesh=mesh, layouts=layouts)
    with tracer.step(0):
        tracer.loss(model(torch.ones(2, 4)).square().mean()).backward()
        optimizer.step()
    tracer.close()
    return path


OUTPUT = tt.Layout("1", output={"tp": tt.Shard(5)})
GRADIENTS = tt.Layout("*", main_grads={"*": {"tp": tt.Shard(5)}})


@pytest.mark.parametrize(
    ("layout", "broken", "exit_code", "words"),
    [
        (OUTPUT, False, MATCH, "2 not recorded by one side"),
        (OUTPUT, True, DIVERGED, "2 not recorded by one side"),
        (GRADIENTS, False, INCONCLUSIVE, "left it out: cut along dimension 5"),
    ],
    ids=["output", "bug", "gradients"],
)
def test_what_a_run_left_out_is_not_missing(tmp_path, layout, broken, exit_code, words):
    reference = traced(tmp_path / "reference.h5")
    candidate = traced(tmp_path / "candidate.h5", [layout], broken)
    linted = run_ttrace("lint", candidate)
    assert linted.returncode == MATCH, linted.stdout + linted.stderr
    done = run_ttrace("compare", reference, candidate)
    assert done.returncode == exit_code, done.stdout + done.stderr
    assert words in " ".join(done.stdout.split()), done.stdout
    assert "missing" not in done.stdout.replace("0 missing", "")
