"""A vocabulary that one run pads: left out and told, a finding with a gradient, or in doubt."""

from __future__ import annotations

import json

import pytest
from support.reports import findings, read_report
from support.text_report import answer
from support.ttrace_cli import DIVERGED, INCONCLUSIVE, MATCH, run_ttrace

from by_hand.page import edited, train, trainer

# 48 tokens in one process, 52 rows on two ranks.
PADDED = ("VOCABULARY, WIDTH, LAYERS", "TOKENS, VOCABULARY, WIDTH, LAYERS")
SIZES = ("= 48, 16, 2, 8, 4, 1", "= 48, 48 if TP == 1 else 52, 16, 2, 8, 4, 1")
DATA = ("torch.randint(VOCABULARY,", "torch.randint(TOKENS,")
MASKED = (
    "return joined(self.head(self.final_norm(x)))",
    "return joined(self.head(self.final_norm(x)))[..., :TOKENS]",
)
ZEROED = (
    "optimizer = torch",
    "for one in (model.embedding.weight, model.head.weight):\n"
    "    beyond = TOKENS - tp_rank * one.shape[0]\n"
    "    one.data[max(beyond, 0):] = 0.0 if beyond < one.shape[0] else one.data[max(beyond, 0):]\n"
    "optimizer = torch",
)
WHOLE = (PADDED, SIZES, DATA)


def compared(reference, tmp_path, *edits, swapped=False, flags=()):
    run, report = tmp_path / "run", tmp_path / "report.json"
    train(edited(trainer(), *WHOLE, *edits), run, tp=2)
    sides = (run, reference[0]) if swapped else (reference[0], run)
    noise = () if swapped else ("--noise", reference[1])
    done = run_ttrace("compare", *sides, *noise, "--json", report, *flags)
    return done, read_report(report)


def test_padding_is_left_out_and_told(reference, tmp_path):
    done, report = compared(reference, tmp_path, MASKED, ZEROED)
    assert done.returncode == MATCH, done.stdout
    assert report["counts"]["match"] == report["counts"]["total"]
    assert "; 4 rows of 22 tensors left out" in answer(done.stdout), done.stdout
    for name in ("embedding", "head"):
        said = f"{name}.weight has 4 rows more in the candidate, from 48 on: padding, of one value"
        assert any(said in warning for warning in report["warnings"]), done.stdout


def test_a_bug_behind_padding_is_found(reference, tmp_path):
    bug = (
        "leave(F.linear(x, self.weight)) + self.bias",
        "leave(F.linear(x, self.weight, self.bias))",
    )
    done, report = compared(reference, tmp_path, MASKED, ZEROED, bug)
    assert done.returncode == DIVERGED
    assert findings(report)[0]["key"]["name"] == "layers.0.down", done.stdout


def test_padding_with_a_gradient_is_a_finding(reference, tmp_path):
    done, report = compared(reference, tmp_path, ZEROED)
    assert done.returncode == DIVERGED
    said = (
        "head.weight has 4 rows more in the candidate, from 48 on: padding, which carries a "
        "gradient; mask it where the loss is computed"
    )
    assert answer(done.stdout).startswith(f"DIVERGED {said}"), done.stdout
    first = findings(report)[0]
    assert (first["key"]["name"], first["key"]["kind"]) == ("head.weight", "param_grad")
    assert first["causes"][0] == {
        "name": "padding_with_gradient",
        "axis": None,
        "evidence": said,
        "unexplained": 0,
        "values": {"told": said},
    }
    bad = [one for one in report["results"] if one["outcome"] == "incomparable"]
    assert {one["key"]["name"] for one in bad} == {"head.weight"}
    assert {one["key"]["kind"] for one in bad} == {"param_grad", "main_grad"}


def test_rows_without_a_gradient_are_in_doubt(reference, tmp_path):
    done, _ = compared(reference, tmp_path, MASKED)
    assert done.returncode == INCONCLUSIVE, done.stdout
    said = " has 4 rows more in the candidate, from 48 on, without a gradient and not of one value"
    assert said in done.stdout.replace("\n    ", " "), done.stdout
    assert "not of one value" in done.stdout and "--map" in done.stdout


@pytest.mark.parametrize("swapped", [False, True])
def test_rules_say_that_rows_are_padding(reference, tmp_path, swapped):
    rules = tmp_path / "rules.json"
    flags = "--map-starter", rules
    compared(reference, tmp_path, MASKED, swapped=swapped, flags=flags)
    starter = json.loads(rules.read_text())
    assert not starter["candidate"] and "reference" not in starter
    told = [json.loads(note[note.index("{") :]) for note in starter["notes"]]
    assert {rule["from"] for rule in told} == {"embedding.weight", "head.weight", "head"}
    starter["reference" if swapped else "candidate"] = told
    rules.write_text(json.dumps(starter))
    runs = [reference[0], tmp_path / "run"]
    noise = () if swapped else ("--noise", reference[1])
    done = run_ttrace("compare", *(runs[::-1] if swapped else runs), "--map", rules, *noise)
    assert " incomparable" not in done.stdout, done.stdout + done.stderr
    if not swapped:  # the swapped runs have no noise run
        assert done.returncode == MATCH, done.stdout + done.stderr


@pytest.mark.parametrize("edits", [(MASKED, ZEROED)])
def test_the_reference_may_be_the_longer_one(reference, tmp_path, edits):
    done, report = compared(reference, tmp_path, *edits, swapped=True)
    assert any("4 rows more in the reference" in warning for warning in report["warnings"])
    assert report["counts"]["incomparable"] == 0, answer(done.stdout)
