"""An optimizer whose ranks share out the updates: torch's ZeroRedundancyOptimizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from process_groups import run_ranks
from support.ttrace_cli import run_ttrace
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from trace_reading import Trace

import ttrace_torch as tt

STEPS = 3
RATES = (0.1, 0.05, 0.2)  # as a schedule sets them between the steps
TRACED_AFTER = 2  # steps of the resumed job, before which a checkpoint is loaded


def job(model: Any, optimizer: Any, batches: list[torch.Tensor], out: Path, first: int) -> None:
    specification = out.with_suffix(".json") if out.suffix else None
    with tt.trace(model, optimizer, out=out, specification=specification) as tracer:
        for step, rate in list(enumerate(RATES))[first:]:
            optimizer.param_groups[0]["lr"] = rate
            with tracer.step(step):
                for batch in batches:
                    loss = model(batch).square().mean()
                    tracer.loss(loss)
                    (loss / len(batches)).backward()
                optimizer.step()
                optimizer.zero_grad()


def made() -> tuple[nn.Module, list[torch.Tensor]]:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3), nn.Linear(3, 2))
    return model, list(torch.randn(2, 5, 4))


def on_rank(rank: int, folder: Path) -> None:
    plain, batches = made()
    model = DistributedDataParallel(plain)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=RATES[0])
    job(model, optimizer, batches[rank : rank + 1], folder / "run", 0)
    optimizer.consolidate_state_dict(to=0)
    states = [optimizer.state_dict() if rank == 0 else None]
    torch.distributed.broadcast_object_list(states)
    resumed = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=RATES[0])
    resumed.load_state_dict(states[0])
    job(model, resumed, batches[rank : rank + 1], folder / "resumed", TRACED_AFTER)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shared_out")
    model, batches = made()
    adam = torch.optim.Adam(model.parameters(), lr=RATES[0])
    job(model, adam, batches, path / "ref.h5", 0)
    run_ranks(2, on_rank, path)
    return path


def test_each_rank_says_the_settings_of_its_share(folder: Path) -> None:
    entries = Trace(folder / "run").manifest["optimizer"]
    assert [entry["type"] for entry in entries] == ["adam"] * STEPS
    assert [entry["lr"] for entry in entries] == list(RATES)
    assert [entry["updates"] for entry in entries] == [1, 2, 3]
    names = {name for name, _ in made()[0].named_parameters()}
    assert all(set(entry["params"]) == names for entry in entries)


def test_every_update_is_replayed_from_the_states_of_the_rank_that_has_them(folder: Path) -> None:
    done = run_ttrace("compare", folder / "ref.h5", folder / "run", "--all", timeout=60)
    assert done.returncode == 0, done.stdout
    assert "replaying the optimizer" not in done.stderr
    assert "nothing unchecked" in done.stdout or "by the candidate" not in done.stdout
    holders = {
        str(entry.get("held_at"))
        for entry in Trace(folder / "run").manifest["tensors"]
        if entry["kind"] == "optimizer_state"
    }
    assert holders == {"{'dp': [0]}", "{'dp': [1]}"}
    audit = run_ttrace("audit", folder / "run", "--specification", folder / "ref.json")
    assert audit.stdout.startswith("HOLDS"), audit.stdout


def test_updates_before_a_checkpoint_are_counted(folder: Path) -> None:
    (entry,) = Trace(folder / "resumed").manifest["optimizer"]
    assert entry["updates"] == STEPS + 1
