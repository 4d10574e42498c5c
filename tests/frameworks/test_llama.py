"""Two implementations of one model: Hugging Face's Llama as reference, one written by hand with
fused matrices as candidate. `--map-starter` finds what belongs together, a person says why the rest
is left out, and then a healthy run matches and an exchange of gate and up is found where it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.python_runs import run_python
from support.ttrace_cli import DIVERGED, MATCH, REPOSITORY, run_ttrace

LAYER = "model.layers.{i}"
QKV = [f"{LAYER}.self_attn.{name}_proj" for name in "qkv"]
GATE_UP = [f"{LAYER}.mlp.{name}_proj" for name in ("gate", "up")]


def train(python: str, script: str, out: Path) -> None:
    done = run_python(
        [REPOSITORY / "tests" / "frameworks" / script, out],
        python=python,
        timeout=900,
        environment={"PYTHONPATH": str(REPOSITORY / "lib" / "torch"), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def traces(python: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("llama")
    train(python, "train_llama.py", folder)
    return folder


def start(traces: Path, run: str) -> dict:
    file = traces / f"starter_of_{run}.json"
    done = run_ttrace("compare", traces / "reference.h5", traces / run, "--map-starter", file)
    assert done.returncode == DIVERGED, done.stdout + done.stderr
    assert f"{file} has " in done.stdout
    return json.loads(file.read_text())


def with_reasons(starter: dict, path: Path) -> Path:
    """Rules of the starter, with a reason for everything that it leaves over."""
    sides = {
        side: [
            {**rule, "reason": f"the {side} alone has it"} for rule in starter["unmatched"][side]
        ]
        + starter.get(side, [])
        for side in ("reference", "candidate")
    }
    path.write_text(json.dumps({"schema": "ttrace.map/2", **sides}))
    return path


@pytest.fixture(scope="module")
def starter(traces: Path) -> dict:
    return start(traces, "fused.h5")


@pytest.fixture(scope="module")
def rules(traces: Path, starter: dict) -> Path:
    return with_reasons(starter, traces / "map.json")


def compared(traces: Path, run: str, *arguments: str | Path) -> tuple[int, str, dict]:
    report = traces / "report.json"
    done = run_ttrace(
        "compare", traces / "reference.h5", traces / run, *arguments, "--json", report
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr, json.loads(report.read_text())


def noise(traces: Path) -> tuple[str, Path]:
    return ("--noise", traces / "noise.h5")


def rule_for(starter: dict, start: str, **members: object) -> dict:
    [rule] = [
        rule
        for rule in starter["candidate"]
        if rule["from"] == start and members.items() <= rule.items()
    ]
    return rule


def test_the_starter_finds_the_fused_matrices(starter: dict) -> None:
    qkv = rule_for(starter, "blocks.{i}.attn.qkv.weight")
    assert qkv["to"] == [f"{name}.weight" for name in QKV]
    assert qkv["split"] == {"dim": 0, "sizes": [64, 32, 32]}
    gate_up = rule_for(starter, "blocks.{i}.mlp.gate_up.weight")
    assert gate_up["to"] == [f"{name}.weight" for name in GATE_UP]
    # Their values follow: outputs in pieces, one input for all.
    assert rule_for(starter, "blocks.{i}.attn.qkv", kind="input", same=True)["to"] == QKV
    values = rule_for(starter, "blocks.{i}.attn.qkv", kind=["output", "grad_output"])
    assert values["split"] == {"dim": 2, "sizes": [64, 32, 32]}
    # Containers are those of the same modules.
    for container, other in (("", ""), (".attn", ".self_attn"), (".mlp", ".mlp")):
        assert rule_for(starter, f"blocks.{{i}}{container}")["to"] == LAYER + other
    assert starter["ambiguous"] == []
    assert all(note.startswith("by shape and order alone: ") for note in starter["notes"])
    parameters = {"param", "param_grad", "main_grad", "param_after_step"}
    for side in ("reference", "candidate"):
        for rule in starter["unmatched"][side]:
            kinds = rule["kind"] if isinstance(rule["kind"], list) else [rule["kind"]]
            assert parameters.isdisjoint(kinds), rule


@pytest.mark.parametrize("common", [[], ["--common"]])
def test_the_healthy_pair_matches(traces: Path, rules: Path, common: list[str]) -> None:
    exit_code, said, report = compared(
        traces, "fused.h5", "--map", rules, *common, *noise(traces)
    )  # fmt: skip
    assert exit_code == MATCH, said
    counts = report["counts"]
    assert counts["total"] == counts["match"] + counts["skipped_by_rule"], said
    assert counts["match"] >= 160, said
    dropped = {entry["reason"] for entry in report["map_dropped"]}
    assert dropped == {"the reference alone has it", "the candidate alone has it"}


def test_rules_without_drops_match_what_both_have(traces: Path, rules: Path, starter: dict) -> None:
    """What one side has alone needs no rule with --common; arguments that only share a place do."""
    kept = json.loads(rules.read_text())
    for side in ("reference", "candidate"):
        kept[side] = [rule for rule in kept[side] if "[" in rule.get("drop", "[")]
    path = traces / "few.json"
    path.write_text(json.dumps(kept))
    exit_code, said, report = compared(traces, "fused.h5", "--map", path, "--common")
    assert exit_code == MATCH, said
    assert report["left_out"]["reference"] > 0


def test_an_exchange_of_gate_and_up_is_found_at_the_parameter(traces: Path, rules: Path) -> None:
    for common in ([], ["--common"]):
        exit_code, said, report = compared(
            traces, "swapped.h5", "--map", rules, *common, *noise(traces)
        )  # fmt: skip
        assert exit_code == DIVERGED, said
        bad = {
            result["id"]: result["outcome"]
            for result in report["results"]
            if result["key"]["kind"] == "param" and result["outcome"] != "match"
        }
        assert len(bad) == 4, bad
        assert "mlp." in report["findings"][0]["id"]
        assert "/param/" in report["findings"][0]["id"]


def test_a_starter_of_the_exchanged_run_tells_of_it(traces: Path) -> None:
    file = traces / "exchanged.json"
    run_ttrace("compare", traces / "reference.h5", traces / "swapped.h5", "--map-starter", file)
    notes = [note for note in json.loads(file.read_text())["notes"] if "exchanged?" in note]
    assert len(notes) == 2
    assert notes[0].startswith(
        "blocks.0.mlp.gate_up.weight holds model.layers.0.mlp.up_proj.weight"
    )
