"""A sum of two linear layers with biases (GPT-NeoX, Phi): one value is both bias gradients."""

import pytest
import torch
from answers import audited
from torch import nn

import ttrace_torch as tt

WIDTH = 16


class Block(nn.Module):
    """x + attention(norm(x)) + mlp(norm(x)), of which only the two outer projections matter."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.dense = nn.Linear(WIDTH, WIDTH)
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        h = self.norm(x)
        return x + self.dense(h) + self.down(nn.functional.gelu(self.up(h)))


def run_job(folder, fault=None):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), Block(), Block(), nn.Linear(WIDTH, 1))
    if fault is not None:
        model[2].down.bias.register_hook(fault)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    specification = folder / "specification.json" if fault is None else None
    tracer = tt.trace(model, optimizer, out=folder / "run.h5", specification=specification)
    with tracer.step(0):
        for number in range(2):
            with tracer.microbatch(number):
                x = torch.randn(4, WIDTH)
                tracer.loss(model(x).square().mean()).backward()
        optimizer.step()
    tracer.close()


def swapped(gradient):
    return gradient[[1, 0, *range(2, WIDTH)]]


def scaled(gradient):
    return gradient * 1.01


def test_healthy_run_holds(tmp_path):
    run_job(tmp_path)
    answer = audited(tmp_path)
    assert answer.code == 0, answer
    assert answer.judged == answer.tensors


@pytest.mark.parametrize("fault", [swapped, scaled])
def test_fault_of_one_of_the_two_is_found(tmp_path, fault):
    run_job(tmp_path)
    run_job(tmp_path, fault)
    answer = audited(tmp_path)
    assert answer.code == 1
    assert answer.found == ["param_grad 2.down.bias"]
