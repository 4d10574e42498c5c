"""A buffer that the training loop changes behind the optimizer's step, as the bias by which a
router balances its experts: the next step computes with other numbers than the specification
has."""

from __future__ import annotations

import pytest
import torch
from answers import audited
from torch import nn

import ttrace_torch as tt


class Model(nn.Module):
    def __init__(self, start):
        super().__init__()
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 4)
        self.register_buffer("bias", torch.full((16,), start))

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)) + self.bias).square().mean()


def train(folder, start, changes, specification=None):
    torch.manual_seed(0)
    model = Model(start)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tt.trace(model, optimizer, out=folder / "run.h5", specification=specification) as tracer:
        for step in range(2):
            with tracer.step(step):
                x = torch.randn(6, 8, generator=torch.Generator().manual_seed(step))
                tracer.loss(model(x)).backward()
                optimizer.step()
                optimizer.zero_grad()
                if changes:
                    model.bias += 0.1


# Equal numbers were taken for a constant of the model.
@pytest.mark.parametrize("start", [0.0, 0.5])
@pytest.mark.parametrize("changes", [True, False])
def test_a_buffer_is_believed_as_long_as_nothing_writes_it(tmp_path, start, changes):
    train(tmp_path, start, changes, tmp_path / "specification.json")
    answer = audited(tmp_path)
    assert answer.code == 0 and not answer.found, answer
    # The input of the last layer needs the buffer, which the trace has.
    assert answer.judged == answer.tensors, answer
