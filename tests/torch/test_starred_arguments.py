"""A module whose forward takes anything, trained by itself and under DDP by a function put in its
place, as Lightning trains a module without a forward of its own."""

from __future__ import annotations

import pytest
import torch
from process_groups import run_ranks
from support.ttrace_cli import DIVERGED, MATCH, run_ttrace
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import ttrace_torch as tt

RANKS, MICRO_BATCHES = 2, 4


class Base(nn.Module):
    def forward(self, *args, **kwargs):
        raise NotImplementedError


class Learner(Base):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def training_step(self, batch, number, *, weight):
        return nn.functional.mse_loss(self.fc(batch["x"]) * weight, batch["y"])


def sample(number):
    numbers = torch.Generator().manual_seed(number)
    return {"x": torch.randn(3, 4, generator=numbers), "y": torch.randn(3, 2, generator=numbers)}


def redirected(module, ranks):
    """`module`, whose next call runs its training_step."""
    if ranks == 1:

        def forward(*args, **kwargs):
            del module.forward
            return module.training_step(*args, **kwargs)
    else:

        def forward(*_args, **_kwargs):
            del module.forward
            return module.training_step(*_args, **_kwargs)

    module.forward = forward


def train(out, rank=0, ranks=1, spoil=1.0, mesh=None):
    torch.manual_seed(1)
    module = Learner()
    model = module if ranks == 1 else DistributedDataParallel(module)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    own = range(rank * MICRO_BATCHES // ranks, (rank + 1) * MICRO_BATCHES // ranks)
    with tt.trace(model, optimizer, out=out, mesh=mesh) as tracer, tracer.step(0):
        for number in own:
            with tracer.microbatch(number):
                given = sample(number)
                given["x"] = given["x"] * spoil
                redirected(module, ranks)
                loss = model(given, number, weight=torch.tensor(0.5))
                (tracer.loss(loss) / len(own)).backward()
        optimizer.step()


def train_rank(rank, out, spoil):
    train(out, rank, RANKS, spoil, tt.Mesh({"dp": RANKS}))


@pytest.mark.parametrize("spoil", [1.0, 1.01], ids=["healthy", "other data"])
def test_the_arguments_have_one_name_in_both(tmp_path, spoil):
    train(tmp_path / "ref.h5")
    run_ranks(RANKS, train_rank, tmp_path / "run", spoil)
    done = run_ttrace("compare", tmp_path / "ref.h5", tmp_path / "run", timeout=120)
    assert done.returncode == (MATCH if spoil == 1 else DIVERGED), done.stdout + done.stderr
    assert "lacks" not in done.stdout
    if spoil != 1:
        assert done.stdout.startswith("DIVERGED  the model's input args[x] is 101/100 times")
