"""compare --map-starter: rules to start from, found by values, shapes and order."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from support.ttrace_cli import INCONCLUSIVE

from .conftest import Run
from .rank_files import write_json, write_run, write_single
from .small_traces import check_answer, check_diverged, check_match, check_refused
from .test_map_rules import (
    GROUPS,
    QKV,
    TP,
    VOCABULARY,
    megatron,
    sharded,
    weights,
    write_models,
)


def starter(ttrace: Run, folder: Path, reference: Path, run: Path) -> dict:
    done = ttrace("compare", reference, run, "--map-starter", folder / "starter.json")
    assert "to start from" in done.stdout
    return json.loads((folder / "starter.json").read_text())


def test_a_starter_finds_what_belongs_together_by_values(ttrace: Run, tmp_path: Path) -> None:
    reference, run, _ = write_models(tmp_path)
    found = starter(ttrace, tmp_path, reference, run)
    assert found["unmatched"] == {"reference": [], "candidate": []}
    assert found["ambiguous"] == []
    by_target = {json.dumps(rule["to"]): rule for rule in found["candidate"]}
    fused = by_target[json.dumps(QKV.replace(".0.", ".{i}."))]
    assert fused["from"] == [f"model.layers.{{i}}.self_attn.{x}_proj.weight" for x in "qkv"]
    assert fused["concat"] == {"dim": 0, "groups": GROUPS}
    halves = [f"decoder.layers.{{i}}.mlp.{name}.weight" for name in ("gate", "up")]
    assert by_target[json.dumps(halves)]["split"] == {"dim": 0, "sizes": [5, 5]}
    assert by_target['"decoder.layers.{i}.mlp.fc2.weight"']["transpose"] == [1, 0]
    # Only a person knows whether rows without a recorded gradient are padding.
    head = by_target['"output_layer.weight"']
    assert "trim" not in head
    done = ttrace("compare", reference, run, "--map", tmp_path / "starter.json")
    check_diverged(done, "output_layer.weight")
    [note] = found["notes"]
    told = json.loads(note[note.index("{") :])
    assert told["trim"] == {"dim": 0, "size": VOCABULARY}
    found["candidate"][found["candidate"].index(head)] = told
    done = ttrace("compare", reference, run, "--map", write_json(tmp_path / "map.json", found))
    check_match(done, 6)
    assert "; 6 rows of 1 tensor left out" in done.stdout


def test_a_starter_finds_the_same_from_the_other_side(ttrace: Run, tmp_path: Path) -> None:
    reference, run, _ = write_models(tmp_path)
    found = starter(ttrace, tmp_path, run, reference)
    # A head of fewer rows cannot be made one of more.
    assert [rule["drop"] for rule in found["unmatched"]["reference"]] == ["lm_head.weight"]
    assert [rule["drop"] for rule in found["unmatched"]["candidate"]] == ["output_layer.weight"]
    done = ttrace("compare", run, reference, "--map", tmp_path / "starter.json", "--common")
    check_answer(done, INCONCLUSIVE, "INCONCLUSIVE  nothing diverged, but ")


def test_a_starter_notes_parts_in_another_order(ttrace: Run, tmp_path: Path) -> None:
    ordered = [
        (described | {"order": i}, array)
        for i, (described, array) in enumerate(megatron(weights()))
    ]
    reference = write_single(tmp_path / "ref.h5", ordered)
    exchanged = weights()
    gate_up = "model.layers.0.mlp.gate_up_proj.weight"
    exchanged[gate_up] = np.concatenate(np.split(exchanged[gate_up], 2)[::-1])
    run = write_run(tmp_path / "exchanged", TP, 2, sharded(exchanged))
    found = starter(ttrace, tmp_path, reference, run)
    note, _ = found["notes"]
    assert note.startswith(f"{gate_up} holds decoder.layers.0.mlp.up.weight, decoder.layers.0.mlp.")
    assert "were they exchanged?" in note


def test_a_starter_replaces_no_input_and_goes_without_a_map(ttrace: Run, tmp_path: Path) -> None:
    reference, run, rules = write_models(tmp_path)
    before = reference.read_bytes()
    check_refused(ttrace("compare", reference, run, "--map-starter", reference), reference)
    assert reference.read_bytes() == before
    check_refused(ttrace("compare", reference, run, "--map-starter", "-"), "give it a file")
    done = ttrace("compare", reference, run, "--map", rules, "--map-starter", tmp_path / "new.json")
    assert done.returncode == 2
    assert not (tmp_path / "new.json").exists()
