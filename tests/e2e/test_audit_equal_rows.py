"""Gradients with equal rows, which a mean over tokens makes: what a kernel loses as it adds them up
one after the other is no fault, and a row that is left out is one."""

import pytest
import torch
from support.ttrace_cli import DIVERGED, MATCH, run_ttrace
from torch import nn

import ttrace_torch as tt

TOKENS, WIDTH = 49, 32


class Averaged(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.outer = nn.Linear(WIDTH, 4)

    def forward(self, x):
        return self.outer(self.norm(self.inner(x)).mean(1))


def trained(folder, seed, left_out=0):
    """Traces a step; of the bias of the norm so many tokens get no gradient."""
    torch.manual_seed(seed)
    model = Averaged()
    x, target = torch.randn(2, TOKENS, WIDTH), torch.tensor([0, 1])
    if left_out:
        # All rows have one gradient, by sample.
        factor = 1 - left_out / (2 * TOKENS)
        model.norm.bias.register_hook(lambda gradient: gradient * factor)
    tracer = tt.trace(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        out=folder / "run.h5",
        specification=None if left_out else folder / "specification.json",
    )
    with tracer.step(0):
        tracer.scalar("target", target)
        tracer.loss(nn.functional.cross_entropy(model(x), target)).backward()
    tracer.close()


@pytest.mark.parametrize("seed", range(6))
def test_a_sum_of_equal_rows_holds_and_one_without_a_row_does_not(tmp_path, seed):
    trained(tmp_path, seed)
    specification = tmp_path / "specification.json"
    healthy = run_ttrace("audit", tmp_path / "run.h5", "--specification", specification)
    assert healthy.returncode == MATCH, healthy.stdout

    (tmp_path / "faulty").mkdir()
    trained(tmp_path / "faulty", seed, left_out=1)
    faulty = run_ttrace("audit", tmp_path / "faulty" / "run.h5", "--specification", specification)
    assert faulty.returncode == DIVERGED, faulty.stdout
    assert "norm.bias" in faulty.stdout.splitlines()[0], faulty.stdout
