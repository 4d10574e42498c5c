"""Windows that share elements, as attention that slides cuts them by strides, are judged."""

from __future__ import annotations

import torch
from answers import audited
from torch import nn

import ttrace_torch as tt

ROWS, WIDTH, WINDOW = 12, 6, 4


class Windows(nn.Module):
    def __init__(self, apart):
        super().__init__()
        self.apart = apart

    def forward(self, x):
        count = (ROWS - WINDOW) // 2 + 1
        size, stride = (len(x), count, WINDOW, WIDTH), (ROWS * WIDTH, self.apart * WIDTH, WIDTH, 1)
        return x.as_strided(size, stride)


class Model(nn.Module):
    def __init__(self, apart=2, written=False):
        super().__init__()
        torch.manual_seed(0)
        self.encode = nn.Linear(WIDTH, WIDTH)
        self.windows = Windows(apart)
        self.decode = nn.Linear(WIDTH, 4)
        self.written = written

    def forward(self, x):
        x = self.encode(x)
        windows = self.windows(x)
        if self.written:
            windows.select(1, 1).mul_(2)
        return self.decode(windows.sin().mean((1, 2))).square().mean()


def train(folder, model, specification=None):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tracer = tt.trace(model, optimizer, out=folder / "run.h5", specification=specification)
    rows = torch.randn(2, ROWS, WIDTH, generator=torch.Generator().manual_seed(1))
    with tracer.step(0):
        tracer.loss(model(rows)).backward()
        optimizer.step()
    tracer.close()


def test_every_tensor_around_the_windows_is_judged(tmp_path):
    train(tmp_path, Model(), tmp_path / "specification.json")
    answer = audited(tmp_path)
    assert (answer.code, answer.judged) == (0, answer.tensors), answer

    train(tmp_path, Model(apart=1))
    answer = audited(tmp_path)
    assert answer.code == 1
    assert answer.found[0] == "output windows"


def test_a_write_into_windows_accuses_nobody(tmp_path):
    with torch.no_grad():
        before = Model().windows(torch.arange(ROWS * WIDTH).view(1, ROWS, WIDTH).float())
    assert before[0, 0, 2, 0] == before[0, 1, 0, 0]  # one element in two windows

    train(tmp_path, Model(written=True), tmp_path / "specification.json")
    answer = audited(tmp_path)
    assert answer.code in (0, 3), answer
    assert answer.found == []
