"""Models whose values decide on sizes, such as how many tokens each expert gets."""

from __future__ import annotations

import json

import pytest
import torch
from support.ttrace_cli import DIVERGED, UNUSABLE, run_ttrace
from torch import nn

import ttrace_torch as tt


class Experts(nn.Module):
    """how: "lists" cuts the sorted tokens by counts; "indices" takes the tokens of each expert."""

    def __init__(self, how):
        super().__init__()
        self.how = how
        self.router = nn.Linear(8, 3, bias=False)
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        self.factor = 1.0

    def forward(self, x):
        scores = self.router(x).softmax(-1)
        best = scores.argmax(-1)
        out = torch.zeros_like(x)
        if self.how == "lists":
            order = best.argsort()
            counts = best.bincount(minlength=3).tolist()
            parts = x[order].split(counts)
            done = torch.cat(
                [expert(part) for expert, part in zip(self.experts, parts, strict=True)]
            )
            out = out.index_add(0, order, done)
        else:
            for number, expert in enumerate(self.experts):
                where = (best == number).nonzero()[:, 0]
                out = out.index_add(0, where, expert(x[where]))
        return self.factor * out * scores.gather(1, best[:, None])


def train(out, how, specification=None, rows=(12, 12), factors=(1.0, 1.0)):
    torch.manual_seed(3)
    experts = Experts(how)
    model = nn.Sequential(nn.Linear(8, 8), experts, nn.Linear(8, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    with tt.trace(model, optimizer, out=out, specification=specification) as tracer:
        for step, (count, factor) in enumerate(zip(rows, factors, strict=True)):
            experts.factor = factor
            with tracer.step(step), tracer.microbatch(0):
                tracer.loss(model(torch.randn(count, 8)).square().mean()).backward()
                optimizer.step()
                optimizer.zero_grad()


def audited(folder, how, **given):
    train(folder / "ref.h5", how, folder / "spec.json")
    train(folder / "run.h5", how, **given)
    answer = folder / "answer.json"
    done = run_ttrace(
        "audit", folder / "run.h5", "--specification", folder / "spec.json", "--json", answer
    )
    return done, json.loads(answer.read_text()) if answer.exists() else None


@pytest.mark.parametrize("how", ["lists", "indices"])
def test_a_step_with_other_sizes_is_not_accused(tmp_path, how):
    done, answer = audited(tmp_path, how)
    assert answer is not None, done.stderr
    assert answer["findings"] == []
    assert json.loads((tmp_path / "spec.json").read_text())["decided_by_values"] is True
    # What the first step computes is judged all the same.
    first = [one for one in answer["results"] if one["key"]["step"] == 0]
    assert not [one["id"] for one in first if one["outcome"] == "not_judged"]
    reasons = answer["coverage"]["not_judged"]
    assert any("other sizes" in one or "other numbers" in one for one in reasons), reasons


@pytest.mark.parametrize("how", ["lists", "indices"])
def test_a_fault_of_the_first_step_is_found(tmp_path, how):
    done, answer = audited(tmp_path, how, factors=(1.01, 1.0))
    assert done.returncode == DIVERGED
    assert answer["findings"][0]["id"].startswith("0/0/output/1/"), answer["findings"][0]["id"]


@pytest.mark.parametrize("how", ["lists", "indices"])
def test_what_a_model_of_such_a_step_gives_is_never_held(tmp_path, how):
    """All of the second step is said to be unjudged, and a fault in it is not called right."""
    _, answer = audited(tmp_path, how, factors=(1.0, 2.0))
    outputs = {one["id"]: one["outcome"] for one in answer["results"]}
    assert outputs["1/0/output/1/0/0"] == "not_judged"


def test_a_dense_model_of_another_batch_is_refused(tmp_path):
    torch.manual_seed(3)
    for name, rows in (("ref", (4, 4)), ("run", (4, 6))):
        model = nn.Sequential(nn.Linear(8, 8), nn.Tanh())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        specification = tmp_path / "spec.json" if name == "ref" else None
        with tt.trace(
            model, optimizer, out=tmp_path / f"{name}.h5", specification=specification
        ) as t:
            for step, count in enumerate(rows):
                with t.step(step), t.microbatch(0):
                    t.loss(model(torch.randn(count, 8)).square().mean()).backward()
                    optimizer.step()
                    optimizer.zero_grad()
    assert "decided_by_values" not in json.loads((tmp_path / "spec.json").read_text())
    done = run_ttrace("audit", tmp_path / "run.h5", "--specification", tmp_path / "spec.json")
    assert done.returncode == UNUSABLE and "of another model, batch" in done.stderr
