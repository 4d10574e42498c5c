"""Runs that did not take the same micro-batches are told that first."""

from __future__ import annotations

import torch
from support.reports import read_report
from support.ttrace_cli import DIVERGED, run_ttrace
from torch import nn

import ttrace_torch as tt


def traced(path, data):
    """One step over micro-batches of the data with these numbers."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(13, 4), nn.Tanh(), nn.Linear(4, 13))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tracer = tt.trace(model, optimizer, out=path)
    with tracer.step(0):
        for number in data:
            generator = torch.Generator().manual_seed(number)
            ids = torch.randint(13, (2, 5), generator=generator)
            loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
            (tracer.loss(loss) / len(data)).backward()
        optimizer.step()
    tracer.close()
    return path


def compared(folder, reference, candidate):
    """The text, on one line, and the JSON."""
    runs = traced(folder / "reference.h5", reference), traced(folder / "candidate.h5", candidate)
    done = run_ttrace("compare", *runs, "--json", folder / "report.json")
    assert done.returncode == DIVERGED, done.stdout + done.stderr
    return " ".join(done.stdout.split()), read_report(folder / "report.json")


def test_another_count_is_the_answer(tmp_path):
    text, report = compared(tmp_path, [0, 1], [0, 1, 2, 3])
    assert text.startswith("DIVERGED the candidate has 4 micro-batches in step 0, the reference 2;")
    assert "let both take the same ones" in text
    assert report["microbatches"]["reference"] == [0, 1]
    assert report["microbatches"]["candidate"] == [0, 1, 2, 3]
    wholes = {finding.get("one_sided") for finding in report["findings"]} - {None}
    assert wholes == {"micro-batch 2 (step 0)", "micro-batch 3 (step 0)"}


def test_another_order_is_the_answer(tmp_path):
    text, report = compared(tmp_path, [0, 1, 2, 3], [0, 2, 1, 3])
    words = "DIVERGED micro-batches 1 and 2 of the candidate are 2 and 1 of the reference;"
    assert text.startswith(words)
    assert "number them alike" in text
    swapped = [{"candidate": 1, "reference": 2}, {"candidate": 2, "reference": 1}]
    assert report["microbatches"]["swapped"] == swapped
    assert report["microbatches"]["shown_by"] == "0/1/input/(model)/0/0"
