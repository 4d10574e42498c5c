"""A module whose forward does not run, nor those inside it: its output has other names, and none of
them is enough to say that it is right."""

import pytest
import torch
from answers import audited
from torch import nn

import ttrace_torch as tt

WIDTH, TOKENS = 8, 12


class Block(nn.Module):
    """As in BERT, the output of the last module inside is that of the block."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x):
        return self.norm(x + self.inner(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.stack = nn.Sequential(*self.blocks)
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, x):
        return self.head(self.stack(x)).square().mean()


def run_job(folder, specification=None, skipped=None):
    model = Model()
    if skipped is not None:
        model.blocks[skipped].forward = lambda x: x * 1
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tracer = tt.trace(model, optimizer, out=folder / "run.h5", specification=specification)
    with tracer.step(0):
        x = torch.randn(TOKENS, WIDTH, generator=torch.Generator().manual_seed(1))
        tracer.loss(model(x)).backward()
        optimizer.step()
    tracer.close()


@pytest.mark.parametrize("skipped", range(3))
def test_skipped_module_is_named(tmp_path, skipped):
    run_job(tmp_path, specification=tmp_path / "specification.json")
    healthy = audited(tmp_path)
    assert healthy.code == 0 and healthy.judged == healthy.tensors, healthy
    run_job(tmp_path, skipped=skipped)
    answer = audited(tmp_path)
    assert answer.code == 1 and answer.found[0] == f"output blocks.{skipped}", answer
