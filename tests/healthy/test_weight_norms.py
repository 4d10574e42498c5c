"""Weights that are a direction times a size, as vocoders have them."""

import pytest
import torch
from answers import audited, compared
from torch import nn

import ttrace_torch as tt


def train(path, dim=0, specification=None, wrong=None):
    torch.manual_seed(1)
    convolution = nn.utils.parametrizations.weight_norm(nn.Conv1d(3, 8, 3), dim=dim)
    model = nn.Sequential(convolution, nn.Tanh(), nn.Flatten(), nn.Linear(8 * 6, 2))
    if wrong is not None:
        weight = getattr(convolution.parametrizations.weight, wrong)
        weight.register_hook(lambda gradient: gradient * 1.01)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tracer = tt.trace(model, optimizer, out=path, specification=specification)
    with tracer.step(0):
        tracer.loss(model(torch.randn(4, 3, 8)).square().mean()).backward()
        optimizer.step()
    tracer.close()


@pytest.mark.parametrize("dim", [0, 1])
def test_its_gradients_are_judged_whole_and_a_wrong_one_is_found(tmp_path, dim):
    train(tmp_path / "reference.h5", dim, tmp_path / "specification.json")
    healthy = audited(tmp_path, "reference.h5")
    assert (healthy.code, healthy.judged) == (0, healthy.tensors), healthy.line
    for side in ("original0", "original1"):  # the size and the direction
        train(tmp_path / "run.h5", dim, wrong=side)
        for answer in (audited(tmp_path), compared(tmp_path)):
            assert answer.code == 1, answer.line
            assert answer.found[0] == f"param_grad 0.parametrizations.weight.{side}"
