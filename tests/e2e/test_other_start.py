"""Runs that start from other weights, or that were given other data, and REF and RUN swapped."""

import json

import pytest
import torch
from support.reports import check_report
from support.ttrace_cli import TESTDATA, run_ttrace
from torch import nn

import ttrace_torch as tt


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(64, 16)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True) for _ in range(2)
        )
        self.head = nn.Linear(16, 64)

    def forward(self, ids):
        hidden = self.embedding(ids)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.head(hidden)


def run_job(path, seed=0, data=1, change=lambda model: None):
    torch.manual_seed(seed)
    model = Model()
    change(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(data)
    tracer = tt.trace(model, optimizer, out=path)
    with tracer.step(0):
        for microbatch in range(2):
            with tracer.microbatch(microbatch):
                ids = torch.randint(0, 64, (2, 8), generator=generator)
                loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten()) / 2
                tracer.loss(loss).backward()
        optimizer.step()
    tracer.close()
    return path


def swap_halves(model):
    """The rows of every weight: what a wrong order of shards does."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.copy_(parameter.roll(parameter.shape[0] // 2, 0))


def lose_a_layer(model):
    model.layers[1].load_state_dict(nn.TransformerEncoderLayer(16, 2, 32).state_dict())


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    return run_job(tmp_path_factory.mktemp("starts") / "reference.h5")


def compared(reference, run):
    path = run.with_suffix(".json")
    done = run_ttrace("compare", reference, run, "--json", path)
    report = json.loads(path.read_text())
    check_report(report)
    return done, report


def test_other_seed_is_said_before_anything_else(reference):
    run = run_job(reference.with_name("seed.h5"), seed=1)
    done, report = compared(reference, run)
    assert done.returncode == 1
    sentence = (
        "the runs do not start from the same weights (15 of 27 parameters differ): same "
        "checkpoint, same seed before wrapping, or consistent_init"
    )
    assert done.stdout.startswith(f"DIVERGED  {sentence}")
    screen = run_ttrace("compare", reference, run, screen=True).stdout
    assert "proof" not in screen and "suspect" not in screen
    assert report["other_start"] == {
        "what": "weights", "step": 0, "differ": 15, "of": 27, "text": sentence
    }  # fmt: skip
    assert len(report["findings"]) == 15
    assert "cause" in run_ttrace("compare", reference, run, "--all").stdout
    localized = run_ttrace("localize", reference, run, screen=True).stdout
    assert localized.startswith(f"FINDINGS  {sentence}\n") and "HERE" not in localized


def test_other_data_are_said_before_anything_else(reference):
    done, report = compared(reference, run_job(reference.with_name("data.h5"), data=2))
    assert done.returncode == 1
    assert done.stdout.startswith(
        "DIVERGED  the runs were given other data (input of micro-batches 0 and 1)\n"
    )
    assert report["other_start"]["microbatches"] == [0, 1]


@pytest.mark.parametrize("change", [swap_halves, lose_a_layer], ids=lambda one: one.__name__)
def test_a_bug_in_the_weights_is_no_other_start(reference, change):
    run = run_job(reference.with_name(f"{change.__name__}.h5"), change=change)
    done, report = compared(reference, run)
    assert done.stdout.startswith("DIVERGED  ") and "same weights" not in done.stdout
    assert "other_start" not in report


def test_swapped_runs_lead_the_report(tmp_path):
    path = tmp_path / "report.json"
    done = run_ttrace("compare", TESTDATA / "tp2sp_p12", TESTDATA / "ref.h5", "--json", path)
    assert done.returncode == 1
    assert done.stdout.startswith(
        "DIVERGED  REF and RUN look swapped: the reference has 2 ranks, and their own copies "
        "differ; "
    )
    report = json.loads(path.read_text())
    check_report(report)
    assert report["swapped"]["reference_ranks"] == 2
    assert report["swapped"]["disagreeing"] in [one["id"] for one in report["findings"]]
