"""A load that gives each of two tied names a parameter of its own."""

from __future__ import annotations

import pytest
import torch
from support.reports import findings, read_report
from support.ttrace_cli import DIVERGED, MATCH, run_ttrace
from torch import nn

import ttrace_torch as tt


class Lm(nn.Module):
    def __init__(self, tied):
        super().__init__()
        self.embed = nn.Embedding(40, 24)
        self.block = nn.Linear(24, 24)
        self.head = nn.Linear(24, 40, bias=False)
        if tied:
            self.head.weight = self.embed.weight
        else:
            self.head.weight = nn.Parameter(self.embed.weight.detach().clone())

    def forward(self, ids):
        return self.head(torch.tanh(self.block(self.embed(ids))))


def train(out, tied):
    torch.manual_seed(32)
    model = Lm(tied)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    with tt.trace(model, optimizer, out=out) as tracer:
        for step in range(2):
            with tracer.step(step):
                for number in range(2):
                    with tracer.microbatch(number):
                        ids = torch.randint(40, (3, 12))
                        logits = model(ids[:, :-1]).flatten(0, 1)
                        loss = nn.functional.cross_entropy(logits, ids[:, 1:].flatten())
                        (tracer.loss(loss, labels=ids[:, 1:]) / 2).backward()
                optimizer.step()
                optimizer.zero_grad()


@pytest.mark.parametrize("tied", [True, False], ids=["reference tied", "candidate tied"])
def test_the_first_line_names_it(tmp_path, tied):
    train(tmp_path / "ref.h5", tied)
    train(tmp_path / "run.h5", not tied)
    compared = run_ttrace(
        "compare", tmp_path / "ref.h5", tmp_path / "run.h5", "--json", tmp_path / "report.json"
    )
    assert compared.returncode == DIVERGED
    first = compared.stdout.splitlines()[0]
    if tied:
        assert "of embed.weight " in first and "head.weight, which" in first, first
        assert "tied in the reference" in first
    else:
        assert "the candidate lacks head.weight" in first
        found = findings(read_report(tmp_path / "report.json"))
        assert {c["name"] for one in found for c in one["causes"]} == {"untied"}
    train(tmp_path / "good.h5", tied)
    assert run_ttrace("compare", tmp_path / "ref.h5", tmp_path / "good.h5").returncode == MATCH
