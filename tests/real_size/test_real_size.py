"""What needs no model of real size: the list of cases, and the table of their results.

`scripts/real_size.sh RAW.jsonl --tiny` tries the rest in a few minutes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from power.store import Store

from real_size import table
from real_size.cases import CASES


def test_every_case_trains_a_reference_noise_runs_a_healthy_and_a_faulty_run() -> None:
    assert len({case.name for case in CASES}) == len(CASES) == 12
    for case in CASES:
        trainings = case.trainings(tiny=False)
        assert json.loads(json.dumps(trainings)) == {k: list(v) for k, v in trainings.items()}
        ranks = {name: ranks for name, (ranks, _) in trainings.items()}
        alone = {"reference": 1, "noise1": 1, "noise2": 1, "noise3": 1}
        assert ranks == {**alone, "healthy": case.ranks, "faulty": case.ranks}
        assert trainings["faulty"][1] == {**trainings["healthy"][1], "fault": case.bug.name}


def _record(**faulty: Any) -> dict[str, Any]:
    norm = {"outcome": "match", "rule": "replay", "allowed": 0.0093}
    healthy = {"exit_code": 0, "answer": "MATCH", "tensors": 7, "tensors_beyond": 0}
    more = {"slices_beyond": 0, "unchecked": 0, "beyond": [], "grad_norm_result": [norm]}
    worst = {"tensor": {"share": 0.25, "where": "a · output"}}
    found = {"exit_code": 1, "answer": "DIVERGED first at b", "tensors_beyond": 3, "suspects": 0}
    found["elsewhere"] = []
    return {
        "parameters": 124e6,
        "seconds": 61.2,
        "bytes": 5.5e9,
        "norms": {"reference": [7.97502, 7.97570], "healthy": [7.97530, 7.97570]},
        "healthy": {**healthy, **more, "worst": worst},
        "faulty": {**found, "first": ["b · main_grad"], "as_expected": True, **faulty},
    }


def test_the_table_says_what_was_found_and_what_was_not_run(tmp_path: Path) -> None:
    store = Store(tmp_path / "raw.jsonl")
    names = [case.name for case in CASES]
    store.add(names[0], **_record())
    store.add(f"failed/{names[1]}", why="a line\nout of memory\n")
    text = table.text(store)
    assert "0 false alarms in 1 healthy runs; 1 of 1 bugs found, 1 of them named" in text
    assert f"| {names[0]} | 2 | 124 M | 7 | 61 | 5.5 | match | 0.25 (tensor, a · output) |" in text
    assert (
        "| 7.97502 | 7.9757 | -8.5e-05 | 7.9753 | 7.9757 | -5.0e-05 | match (replay) | 9.3e-03 |"
        in text
    )
    assert f"- {names[1]}: out of memory\n- {names[2]}: not tried yet" in text


def test_the_table_says_what_audits_said(tmp_path: Path) -> None:
    store = Store(tmp_path / "raw.jsonl")
    worst = {"share": 0.625, "where": "a · param_grad"}
    run = {"exit_code": 0, "judged": 873, "tensors": 957, "worst": worst, "seconds": 12.0}
    run |= {"findings": 0, "first": [], "as_expected": False, "not_judged": {"a sort": 84}}
    broken = {**run, "exit_code": 1, "findings": 2, "first": ["b · output"], "as_expected": True}
    stages = {"compare healthy": 10.0, "compare faulty": 8.0}
    store.add(CASES[0].name, **_record(), audit={"healthy": run, "faulty": broken}, stages=stages)
    text = table.text(store)
    assert "0 false alarms in 1 healthy runs; 1 of 1 bugs found, 1 of them named" in text
    judged = "873 of 957 (91.2 %) | 0.62 (a · param_grad)"
    assert f"| healthy | holds | {judged} | – | – | 0 | 12 | 1.2 |" in text
    assert f"| {CASES[0].bug.name} | broken | {judged} | b · output | yes | 2 | 12 | 1.5 |" in text
    assert f"- {CASES[0].name}: 84 tensors: a sort" in text


def test_the_table_says_which_lies_were_found(tmp_path: Path) -> None:
    store = Store(tmp_path / "raw.jsonl")
    said = {"exit_code": 1, "findings": 2, "seconds": 11.6}
    rows = ["1 of 128 rows: [0, 33]"]
    store.add("lies/a", says="a row zeroed", **said, found=["output a"], rows=rows)
    store.add("lies/b", says="a factor", **{**said, "exit_code": 0}, found=[], rows=[])
    text = table.text(store)
    assert "| a row zeroed | broken | `output a` | 1 of 128 rows: [0, 33] | 2 | 12 |" in text
    assert "| a factor | holds | **nothing of it** | – | 2 | 12 |" in text


def test_what_was_missed_is_told(tmp_path: Path) -> None:
    store = Store(tmp_path / "raw.jsonl")
    missed = {"exit_code": 0, "answer": "MATCH 7 tensors", "first": [], "as_expected": False}
    store.add(CASES[0].name, **_record(**missed))
    text = table.text(store)
    assert "0 of 1 bugs found" in text
    assert f"- {CASES[0].name}, {CASES[0].bug.says}: MATCH 7 tensors" in text


def test_what_was_found_beside_the_bug_is_told(tmp_path: Path) -> None:
    store = Store(tmp_path / "raw.jsonl")
    store.add(CASES[0].name, **_record(elsewhere=["c · param_after_step"]))
    text = table.text(store)
    assert f"- {CASES[0].name}, more than the one bug: DIVERGED first at b" in text
    assert "  - also c · param_after_step\n" in text
