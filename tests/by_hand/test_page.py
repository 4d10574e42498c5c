"""The page's trainer: healthy in five layouts, and six bugs are found at their place."""

from __future__ import annotations

import re

import pytest
from support.reports import findings, read_report
from support.text_report import answer
from support.ttrace_cli import DIVERGED, MATCH, run_ttrace

from by_hand.page import edited, train, trainer

LAYOUTS = {
    "dp2": {"dp": 2},
    "tp2": {"tp": 2},
    "tp2 sp": {"tp": 2, "sp": 1},
    "tp4 sp": {"tp": 4, "sp": 1},
    "dp2 tp2 sp": {"dp": 2, "tp": 2, "sp": 1},
}

# Bug -> layout, edits, and the name, kind and cause of the first finding.
BUGS = {
    "norms are not summed under sequence parallelism": (
        "tp2 sp",
        [('("norm" in name or name.endswith("down.bias"))', 'name.endswith("down.bias")')],
        ("layers.0.norm.weight", "main_grad", "missing_reduction"),
    ),
    "the mask of the vocabulary is one row short": (
        "tp2",
        [("(local >= self.weight.shape[0])", "(local >= self.weight.shape[0] - 1)")],
        ("embedding", "output", "zeroed"),
    ),
    "a learning rate taken from the shard": (
        "tp2",
        [("lr=1e-3", "lr=1e-3 * TP")],
        ("lr", "setting", ""),
    ),
    "a bias that every rank adds before the sum": (
        "tp2",
        [
            (
                "leave(F.linear(x, self.weight)) + self.bias",
                "leave(F.linear(x, self.weight, self.bias))",
            )
        ],
        ("layers.0.down", "output", "offset"),
    ),
    "a bucket that is reduced before the last micro-batch": (
        "dp2",
        [
            (
                "            (loss / MICROBATCHES).backward()\n",
                "            (loss / MICROBATCHES).backward()\n"
                "            if number == dp_rank * share:\n"
                "                for parameter in model.parameters():\n"
                '                    parameter.grad = all_reduce(parameter.grad, "dp")\n',
            ),
            (
                '            parameter.grad = all_reduce(parameter.grad, "dp")\n            if SP',
                "            if SP",
            ),
        ],
        ("embedding.weight", "main_grad", "replica_conflict"),
    ),
    "a loss divided by the rank's own micro-batches": (
        "dp2",
        [("(loss / MICROBATCHES)", "(loss / share)")],
        ("loss", "grad_output", "scaled"),
    ),
}


def compared(reference, out, *flags):
    ref, noise = reference
    report = out.with_suffix(".json")
    done = run_ttrace("compare", ref, out, "--noise", noise, "--json", report, *flags)
    return done, read_report(report)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_healthy_run_matches(reference, tmp_path, layout):
    said = train(trainer(), tmp_path / "run", **LAYOUTS[layout])
    (line,) = said.splitlines()  # what was recorded, and nothing to complain of
    assert line.startswith("ttrace: step 0, 292 tensors, ")
    linted = run_ttrace("lint", tmp_path / "run")
    assert linted.stdout.startswith("CLEAN"), linted.stdout
    done, report = compared(reference, tmp_path / "run")
    assert done.returncode == MATCH, done.stdout
    assert report["counts"]["match"] == report["counts"]["total"], done.stdout


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_is_found(reference, tmp_path, bug):
    layout, edits, (name, kind, cause) = BUGS[bug]
    train(edited(trainer(), *edits), tmp_path / "run", **LAYOUTS[layout])
    done, report = compared(reference, tmp_path / "run")
    assert done.returncode == DIVERGED, done.stdout
    if kind == "setting":
        assert answer(done.stdout).startswith("DIVERGED") and "lr of 16 parameters" in done.stdout
        return
    first = findings(report)[0]
    found = first["key"]["name"], first["key"]["kind"], first["causes"][0]["name"]
    assert found == (name, kind, cause), done.stdout


def test_ranks_that_share_numbers_are_told_apart(reference, tmp_path):
    source = edited(trainer(), ("optimizer, mesh=mesh", "optimizer, dp_axis=(), mesh=mesh"))
    train(source, tmp_path / "run", dp=2)
    done, report = compared(reference, tmp_path / "run")
    sentence = "the dp ranks recorded different data under the same micro-batch numbers"
    assert answer(done.stdout).startswith(f"DIVERGED {sentence}; "), done.stdout
    assert 'say trace(dp_axis="dp")' in done.stdout
    assert report["microbatches"]["axis"] == "dp"


def test_a_mistake_of_the_recording_is_on_the_first_line(reference, tmp_path):
    source = edited(
        trainer(),
        ('tt.Mesh({"dp": DP, "tp": TP})', 'tt.Mesh({"data": DP, "tp": TP})'),
        (
            "            ids, labels = batch(number)\n",
            "            ids, labels = batch(number)\n"
            "            context = tracer.microbatch(number % share, of=share)\n"
            "            context.__enter__()\n",
        ),
        (
            "            (loss / MICROBATCHES).backward()\n",
            "            (loss / MICROBATCHES).backward()\n"
            "            context.__exit__(None, None, None)\n",
        ),
    )
    said = train(source, tmp_path / "run", dp=2)
    # Before anything is recorded, by the rank that is first, and once more when the run closes.
    question = "whether samples are dealt out over the mesh axis data"
    assert len(re.findall(f"^ttrace: rank [01]: {question}", said, re.MULTILINE)) == 1
    assert "whole parts of the run were left out" in said
    assert said.index(question) < said.index("whole parts of the run were left out")
    done, _ = compared(reference, tmp_path / "run")
    first = answer(done.stdout)
    assert "not recorded by the candidate" in first, done.stdout
    assert "microbatch(n, of=2) needs trace(dp_axis=...)" in done.stdout


def test_ranks_with_the_same_data_are_told(tmp_path):
    numbers = "range(dp_rank * share, (dp_rank + 1) * share)"
    said = train(edited(trainer(), (numbers, "range(share)")), tmp_path / "run", dp=2)
    assert "ranks 0 and 1 got the same data, as micro-batches 0 and 2" in said
    assert "say trace(dp_axis=())" in said
