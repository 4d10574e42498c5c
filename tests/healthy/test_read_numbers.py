"""Numbers that a model reads from tensors, as item() does: they decide what it computes next."""

import pytest
import torch
from answers import audited
from torch import nn

import ttrace_torch as tt

WIDTH, SAMPLES = 8, 6


class Chooses(nn.Module):
    """All samples go to the expert that most of them prefer."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(WIDTH, 3)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.fault = None

    def forward(self, x):
        chosen = int(self.gate(x).sum(0).argmax())
        return self.experts[chosen if self.fault is None else self.fault(chosen)](x)


class Scales(nn.Module):
    """The samples are divided by the largest element."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(WIDTH, WIDTH)
        self.fault = None

    def forward(self, x):
        x = self.inner(x)
        largest = x.detach().abs().amax().item()
        return x / (largest if self.fault is None else self.fault(largest))


class Model(nn.Module):
    def __init__(self, layer):
        super().__init__()
        torch.manual_seed(0)
        self.layer = layer()
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, x):
        return self.head(self.layer(x)).square().mean()


# The samples of the seeds 1 and 2 prefer one expert, those of 10 another one.
def run_job(folder, layer, specification=None, fault=None, seeds=(1, 2)):
    model = Model(layer)
    model.layer.fault = fault
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tracer = tt.trace(model, optimizer, out=folder / "run.h5", specification=specification)
    with tracer.step(0):
        for seed in seeds:
            x = torch.randn(SAMPLES, WIDTH, generator=torch.Generator().manual_seed(seed))
            (tracer.loss(model(x)) / len(seeds)).backward()
        optimizer.step()
    tracer.close()


@pytest.mark.parametrize("layer", [Chooses, Scales])
def test_every_micro_batch_has_its_own_numbers(tmp_path, layer, capfd):
    run_job(tmp_path, layer, specification=tmp_path / "specification.json")
    assert "read" not in capfd.readouterr().err
    answer = audited(tmp_path)
    assert answer.code == 0 and answer.judged == answer.tensors, answer


@pytest.mark.parametrize("layer", [Chooses, Scales])
def test_what_other_numbers_change_is_not_judged(tmp_path, layer):
    run_job(tmp_path, layer, specification=tmp_path / "specification.json")
    run_job(tmp_path, layer, seeds=(10, 2))
    answer = audited(tmp_path)
    assert not answer.found and answer.judged < answer.tensors, answer
    report = (tmp_path / "report.json").read_text(encoding="utf-8")
    assert "the model read other numbers from tensors here" in report


@pytest.mark.parametrize(
    ("layer", "fault"),
    [(Chooses, lambda chosen: (chosen + 1) % 3), (Scales, lambda largest: 1.05 * largest)],
)
def test_wrong_number_is_found(tmp_path, layer, fault):
    """The model reads the right number, and does something else with it."""
    run_job(tmp_path, layer, specification=tmp_path / "specification.json")
    run_job(tmp_path, layer, fault=fault)
    answer = audited(tmp_path)
    assert answer.code != 0, answer
    if layer is Scales:
        assert answer.code == 1 and answer.found[0] == "output layer", answer
