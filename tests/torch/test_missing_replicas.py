"""A rank that skips its update is found, on copies and on cut tensors."""

from __future__ import annotations

import pytest
import torch
from support.ttrace_cli import DIVERGED, INCONCLUSIVE, MATCH, run_ttrace
from torch import nn
from trace_reading import Trace

import ttrace_torch as tt

X = torch.arange(8.0).reshape(2, 4)


class Halves(nn.Module):
    """A linear layer of which a rank of several has half of the rows."""

    def __init__(self, part=slice(None)):
        super().__init__()
        torch.manual_seed(0)
        self.weight = nn.Parameter(torch.randn(4, 4)[part].clone())

    def forward(self, x):
        return x @ self.weight.t()


LAYOUTS = {
    "dp": [],
    "tp": [
        tt.Layout(
            "(model)",
            params={"weight": {"tp": tt.Shard(0)}},
            output={"tp": tt.Shard(1)},
        )
    ],
}


def run(path, axis=None, rank=0, skips=False, **options):
    if axis is not None:
        # All ranks get the same data.
        where = {"mesh": tt.Mesh({axis: 2}), "rank": rank, "layouts": LAYOUTS[axis]}
        options.update(where, dp_axis=())
    part = slice(2 * rank, 2 * rank + 2) if axis == "tp" else slice(None)
    model = Halves(part)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.125)
    with tt.trace(model, optimizer, out=path, **options) as tracer, tracer.step(0):
        model(X).sum().backward()
        if not skips:
            optimizer.step()


def compared(tmp_path, axis, skipping, **options):
    run(tmp_path / "ref.h5", **options)
    for rank in range(2):
        run(tmp_path / "run", axis, rank, rank in skipping, **options)
    return run_ttrace("compare", tmp_path / "ref.h5", tmp_path / "run")


@pytest.mark.parametrize("axis", ["dp", "tp"])
def test_a_rank_that_skips_its_update_is_named(tmp_path, axis):
    done = compared(tmp_path, axis, [1], kinds=["param", "output", "param_after_step"])
    assert done.returncode == DIVERGED, done.stdout + done.stderr
    assert "rank 1 of 2 recorded step 0 but lacks it" in done.stdout
    done = run_ttrace("lint", tmp_path / "run")
    assert done.returncode == DIVERGED
    name = f"{tmp_path / 'run'}: weight · param_after_step · step 0: rank 1 of 2 recorded step 0"
    assert name in done.stdout
    assert "dataset" not in done.stdout.splitlines()[1]


@pytest.mark.parametrize("axis", ["dp", "tp"])
def test_with_all_kinds_it_is_named_too(tmp_path, axis):
    done = compared(tmp_path, axis, [0])
    assert done.returncode == DIVERGED, done.stdout + done.stderr
    assert "rank 0 of 2 recorded step 0 but lacks it" in done.stdout


@pytest.mark.parametrize("axis", ["dp", "tp"])
def test_a_healthy_run_lacks_nothing(tmp_path, axis):
    done = compared(tmp_path, axis, [], kinds=["param", "output", "param_after_step"])
    assert done.returncode == MATCH, done.stdout + done.stderr
    assert run_ttrace("lint", tmp_path / "run").returncode == MATCH


def test_ranks_that_were_told_not_to_record_lack_nothing(tmp_path):
    kinds = ["param", "output", "param_after_step"]
    run(tmp_path / "ref.h5", kinds=kinds)
    for rank in range(2):
        run(tmp_path / "run", "dp", rank, skips=rank == 1, kinds=kinds, ranks=0)
    done = run_ttrace("compare", tmp_path / "ref.h5", tmp_path / "run")
    assert done.returncode == MATCH, done.stdout + done.stderr
    assert run_ttrace("lint", tmp_path / "run").returncode == MATCH


def test_a_rank_whose_file_is_gone_is_unreadable(tmp_path):
    compared(tmp_path, "tp", [1], kinds=["param", "output", "param_after_step"])
    (tmp_path / "run" / "rank_00001.h5").unlink()
    done = run_ttrace("compare", tmp_path / "ref.h5", tmp_path / "run")
    assert done.returncode == INCONCLUSIVE, done.stdout + done.stderr


@pytest.mark.parametrize("axis", ["dp", "tp"])
def test_the_tool_rebuilds_the_same_manifest(tmp_path, axis):
    compared(tmp_path, axis, [1])
    expected = Trace(tmp_path / "run").manifest
    assert axis == "dp" or any("absent_on" in entry for entry in expected["tensors"])
    (tmp_path / "run" / "manifest.json").unlink()
    done = run_ttrace("lint", "--write", tmp_path / "run")
    assert done.returncode == DIVERGED
    rebuilt = Trace(tmp_path / "run").manifest
    for member in ("schema", "run", "tensors"):
        assert rebuilt[member] == expected[member]
