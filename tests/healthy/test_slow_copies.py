"""A slow copy of a model's parameters, which no optimizer holds and the loop moves; and gradients
that the job averages over its ranks itself, some of them left over from the step before."""

from __future__ import annotations

import pytest
import torch
from answers import audited, compared
from process_groups import run_ranks
from support.ttrace_cli import DIVERGED, MATCH
from torch import distributed, nn

import ttrace_torch as tt

RANKS, SAMPLES, STEPS = 2, 4, 2


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.world, self.critic, self.slow = nn.Linear(6, 8), nn.Linear(8, 1), nn.Linear(8, 1)

    def forward(self, x, value=False):
        h = self.world(x).tanh()
        if not value:
            return h.square().sum(-1)
        return (self.critic(h.detach()) - 0.9 * self.slow(h.detach()).detach()).squeeze(-1)


def record(rank, ranks, out, specification=None, averaged=True, leftover=None):
    """Two optimizers take turns, behind a backward each; the slow copy follows the critic.

    averaged: whether trace() gets averaged_over=ranks.
    leftover: the part whose gradients are not zeroed.
    """
    torch.manual_seed(1)
    model = Agent()
    parts = [model.world, model.critic]
    optimizers = [torch.optim.Adam(part.parameters(), lr=1e-2) for part in parts]
    tracer = tt.trace(
        model,
        optimizers,
        out=out,
        mesh=tt.Mesh({"dp": ranks}),
        specification=specification,
        averaged_over=ranks if averaged else None,
    )
    share = SAMPLES // ranks
    for step in range(STEPS):
        with tracer.step(step):
            for turn, (part, optimizer) in enumerate(zip(parts, optimizers, strict=True)):
                for number in range(rank * share, (rank + 1) * share):
                    numbers = torch.Generator().manual_seed(100 * step + 10 * turn + number)
                    x = torch.randn(3, 6, generator=numbers)
                    with tracer.microbatch(turn * SAMPLES + number):
                        loss = tracer.loss(model(x, turn == 1).square().mean())
                        # Of the rank's own samples.
                        (loss / share).backward()
                for parameter in part.parameters():
                    if ranks > 1:
                        distributed.all_reduce(parameter.grad)
                        parameter.grad /= ranks
                optimizer.step()
            with torch.no_grad():
                for slow, fast in zip(
                    model.slow.parameters(), model.critic.parameters(), strict=True
                ):
                    slow.lerp_(fast, 0.02)
            for name, part in model.named_children():
                if name != leftover:
                    part.zero_grad()
    tracer.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("slow")
    record(0, 1, folder / "reference.h5", folder / "specification.json")
    return folder


def test_what_the_loop_moves_is_no_update_of_an_optimizer(folder):
    run_ranks(RANKS, record, RANKS, folder / "run")
    found = compared(folder, "run")
    assert found.code == MATCH, found
    for run in ("reference.h5", "run"):
        assert audited(folder, run).code == MATCH, audited(folder, run)


def test_gradients_that_nobody_said_are_averaged(folder):
    run_ranks(RANKS, record, RANKS, folder / "untold", None, False)
    found = compared(folder, "untold")
    assert found.code == DIVERGED and "is 2 times what it should be" in found.line, found


def test_gradients_that_were_not_zeroed_are_told(folder):
    run_ranks(RANKS, record, RANKS, folder / "stale", None, True, "world")
    found = compared(folder, "stale")
    assert found.code == DIVERGED
    assert "has the main gradient of step 0 too" in found.line, found
    assert found.found[0].startswith("main_grad world."), found


def test_parameters_cut_over_their_samples_have_no_raw_gradient(tmp_path, capfd):
    mesh = tt.Mesh({"dp": 2})
    layouts = [tt.Layout("table", params={"*": {"dp": tt.Shard(0)}})]
    model = nn.ModuleDict({"table": nn.Embedding(4, 2)})
    with pytest.raises(tt.TraceError, match="positive"):
        tt.trace(model, out=tmp_path / "x", mesh=mesh, rank=0, averaged_over=0)
    tt.trace(model, out=tmp_path / "run", mesh=mesh, rank=0, layouts=layouts)
    assert "the raw gradients of table.weight are left out" in capfd.readouterr().err
    tt.trace(model, out=tmp_path / "told", mesh=mesh, rank=0, layouts=layouts, dp_axis=())
    assert "left out" not in capfd.readouterr().err
