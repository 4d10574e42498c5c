"""Recurrent networks. Cells in a loop cut what they multiply into gates and write into these;
layers whose batch comes first turn their result in place, or take all times by one kernel."""

import json

import h5py
import pytest
import torch
from answers import audited, compared
from torch import nn

import ttrace_torch as tt

WORDS, WIDTH, LENGTH, SAMPLES = 11, 5, 4, 3


class Loop(nn.Module):
    def __init__(self, cell):
        super().__init__()
        self.table = nn.Embedding(WORDS, WIDTH)
        self.cell = cell(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, ids):
        hidden = torch.zeros(SAMPLES, WIDTH)
        state = (hidden, hidden) if isinstance(self.cell, nn.LSTMCell) else hidden
        scores = []
        for words in self.table(ids).unbind(1):
            state = self.cell(words, state)
            scores.append(self.head(state[0] if isinstance(state, tuple) else state))
        return torch.stack(scores, 1)


class Layers(nn.Module):
    def __init__(self, kind, **settings):
        super().__init__()
        self.table = nn.Embedding(WORDS, WIDTH)
        self.cell = kind(WIDTH, WIDTH, num_layers=2, batch_first=True, **settings)
        self.head = nn.LazyLinear(WORDS)

    def forward(self, ids):
        outputs, last = self.cell(self.table(ids))
        last = last[0] if isinstance(last, tuple) else last
        return self.head(outputs) * last.mean()


JOBS = {
    "lstm cell": lambda: Loop(nn.LSTMCell),
    "gru cell": lambda: Loop(nn.GRUCell),
    "gru": lambda: Layers(nn.GRU),
    # By a kernel of oneDNN.
    "lstm": lambda: Layers(nn.LSTM),
    "lstm in both directions": lambda: Layers(nn.LSTM, bidirectional=True),
    "lstm without biases": lambda: Layers(nn.LSTM, bias=False),
}


def train(path, build, specification=None, factor=1.0):
    torch.manual_seed(1)
    model = build()
    ids = torch.randint(WORDS, (SAMPLES, LENGTH))
    model(ids)  # its head takes the width that there is
    weight = next(model.cell.parameters())
    weight.register_hook(lambda gradient: gradient * factor)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tracer = tt.trace(model, optimizer, out=path, specification=specification)
    with tracer.step(0):
        labels = ids.roll(-1, 1).flatten()
        loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), labels)
        tracer.loss(loss, labels=labels).backward()
        optimizer.step()
    tracer.close()


@pytest.mark.parametrize("build", JOBS.values(), ids=JOBS)
def test_a_healthy_cell_is_judged_whole_and_a_wrong_gradient_is_found(tmp_path, build, capfd):
    train(tmp_path / "reference.h5", build, tmp_path / "specification.json")
    healthy = audited(tmp_path, "reference.h5")
    assert (healthy.code, healthy.judged) == (0, healthy.tensors), healthy.line
    assert "mistake" not in capfd.readouterr().err
    train(tmp_path / "run.h5", build, factor=1.01)
    for answer in (audited(tmp_path), compared(tmp_path)):
        assert answer.code == 1, answer.line
        assert answer.found[0].startswith("param_grad cell.weight_ih"), answer.found


def test_the_gradient_of_a_state_from_which_the_cell_makes_its_output_is_not_recorded(tmp_path):
    """A GPU computes both at once, so that gradient lacks what the output adds to it."""
    train(tmp_path / "run.h5", JOBS["lstm cell"])
    with h5py.File(tmp_path / "run.h5") as file:
        entries = json.loads(file["manifest"][()])["tensors"]
    kinds = {kind: set() for kind in ("output", "grad_output")}
    for entry in entries:
        if entry["name"].startswith("cell"):
            kinds.get(entry["kind"], set()).add(entry["name"])
    assert kinds == {"output": {"cell", "cell[1]"}, "grad_output": {"cell"}}
