"""A few rows of the study from training to RESULTS.md, so that what makes its numbers works."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from power import framework_rows, healthy, results, rows, study
from power.comparing import worst
from power.detection import FRACTIONS, LADDER, bisected
from power.editing import part_of
from power.runs import Family, Fault, Model, Run
from power.store import Store
from power.tables import smallest_for

FAMILY = rows.family()


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Family, Store]:
    """A small model in one layout, and with one fault; every part of the study."""
    options = ["--layers", "2", "--precision", "bf16"]
    run = rows.run("tp2-sp", options)
    wrong = Run("miscounted", run.ranks, run.axes, {**run.case, "gradients": 32 / 31})
    fault = Fault(wrong, rows.LOSS_GRADIENT, rows.ALL_GRADIENTS)
    closely = {"sampled": (run.name,), "emptied": {run.name: 61}}
    model = Model("small", "bf16", {"options": options}, (run,), (fault,), **closely)
    family = Family(FAMILY.name, FAMILY.launcher, (model,))
    store = Store(tmp_path_factory.mktemp("study") / "raw.jsonl")
    study.study([family], store)
    return family, store


def test_healthy_runs_match(measured: tuple[Family, Store]) -> None:
    _, store = measured
    compared = store.of("healthy")
    assert [record["noise"] for record in compared] == [[], [1], [2], [3], [1, 2, 3]]
    for record in compared:
        assert (record["exit_code"], record["tensors_beyond"], record["slices_beyond"]) == (0, 0, 0)
        assert record["worst"]["tensor"]["share"] < 1
    assert sum(compared[-1]["histograms"]["over_noise"].values()) > 100


def test_a_wrong_count_of_tokens_is_found_at_the_gradient_of_the_loss(
    measured: tuple[Family, Store],
) -> None:
    (record,) = measured[1].of("faulty")
    assert record["exit_code"] == 1 and record["as_expected"], record


def test_limits_are_found(measured: tuple[Family, Store]) -> None:
    (whole, *parts) = measured[1].of("fraction")
    assert [record["fraction"] for record in (whole, *parts)] == list(FRACTIONS)
    sizes = [one["size"] for one in whole["tensors"]]
    assert 1e-3 < smallest_for(sizes, 0.5) < 0.3
    (record,) = measured[1].of("selftest")
    assert {tensor["kind"] for tensor in record["tensors"]} >= {"output", "main_grad"}


def test_keys_left_out_are_named(measured: tuple[Family, Store]) -> None:
    (record,) = measured[1].of("keys")
    for what in ("removed", "added", "shard_lost", "rank_lost"):
        assert record[what]["tried"] > 1 and record[what]["wrong"] == []


def test_a_study_goes_on_where_it_stopped(measured: tuple[Family, Store]) -> None:
    family, store = measured
    before = store.path.read_text(encoding="utf-8")
    again = Store(store.path)
    assert not any(study.pending(family, model, again) for model in family.models)
    with store.path.open("a", encoding="utf-8") as file:
        file.write('{"id": "healthy/half a li')
    assert Store(store.path).records == again.records
    assert store.path.read_text(encoding="utf-8") == before


def test_results_are_written(measured: tuple[Family, Store], tmp_path: Path) -> None:
    results.write(measured[1], tmp_path, ["a run of the grid"])
    text = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert "0 tensors, 0 slices, in 0 of 1 runs" in text
    assert "1 runs of the grid: a run of the grid." in text
    assert (tmp_path / "error_over_noise.png").stat().st_size > 10_000


def test_what_was_measured_by_another_build_is_told(tmp_path: Path) -> None:
    store = Store(tmp_path / "raw.jsonl")
    store.add("selftest/a/b/c", framework="a", model="b", run="c", tensors=[])
    assert results._builds(store) == "All by one build."
    again = Store(store.path, "12ab")
    again.add("keys/a/d/c", framework="a", model="d", run="c")
    text = results._builds(again)
    assert "| the first build | selftest | all others (1 models) |" in text
    assert "| 12ab | keys | a d (1) |" in text


def test_a_run_that_cannot_be_trained_is_told(tmp_path: Path) -> None:
    options = ["--layers", "1"]
    broken = Run("broken", 1, frozenset(), {"options": [*options, "--heads", "3"]})
    sound = Run("sound", 1, frozenset(), {"options": options})
    model = Model("one", "fp32", {"options": options}, (broken, sound))
    store = Store(tmp_path / "raw.jsonl")
    study.study([Family("miniature", FAMILY.launcher, (model,))], store)
    failed = [record for record in store.of("healthy") if "failed" in record]
    assert {record["run"] for record in failed} == {"broken"} and len(failed) == len(healthy.NOISE)
    assert "3 is not" in failed[0]["failed"] or "--heads" in failed[0]["failed"]
    assert {r["exit_code"] for r in store.of("healthy") if r["run"] == "sound"} == {0}
    assert "broken could not be trained" in results.text(store, [])


def test_a_false_alarm_would_be_counted(measured: tuple[Family, Store], tmp_path: Path) -> None:
    store = Store(tmp_path / "raw.jsonl")
    for record in measured[1].of("healthy"):
        name, members = record["id"], {k: v for k, v in record.items() if k != "id"}
        beyond = [{"where": "layers.0 · output · step 0 · mb 0"}]
        alarm = {"exit_code": 1, "tensors_beyond": 1, "slices_beyond": 2, "beyond": beyond}
        store.add(name, **{**members, **alarm})
    text = results.text(store, [])
    assert "1 tensors, 2 slices, in 1 of 1 runs (1 diverged, 0 inconclusive)" in text
    assert "3 of 3 comparisons (100.0 %: 3 diverged, 0 inconclusive), in 1 of 1 runs" in text


def test_the_worst_share_and_its_place() -> None:
    def result(name: str, found: float, rule: str = "noise", **more: object) -> dict:
        kind = "grad_norm" if name == "grad_norm" else "main_grad"
        key = {"step": 0, "microbatch": None, "kind": kind, "name": name}
        norms = {"difference_norm": found, "allowed_norm": 2.0}
        return {"key": key, "outcome": "match", "rule": rule, **norms, **more}

    part = {"what": "block", "origin": [2], "extent": [2], "error": 0.9, "allowed": 1.0}
    found = worst(
        [
            result("a", 1.0, closest_slice=part),
            result("b", 1.5),
            result("c", 9.0, rule="exact"),
            result("d", 9.0, rule="replay", passing_multiplier=0.4),
            result("e", 1.0, slices_beyond=2, slices=[{**part, "what": "shard", "error": 1.5}]),
            result("f", 1.0, slices_beyond=2),
            result("grad_norm", 9.0, rule="replay", passing_multiplier=0.7),
        ]
    )
    assert found == {
        "tensor": {"share": 0.75, "where": "b · main_grad · step 0"},
        "block": {"share": 0.9, "where": "a · main_grad · step 0, at [2] of extent [2]"},
        "shard": {"share": 1.5, "where": "e · main_grad · step 0, at [2] of extent [2]"},
        "replayed gradient norm": {"share": 0.7, "where": "grad_norm · grad_norm · step 0"},
        "replayed update": {"share": 0.4, "where": "d · main_grad · step 0"},
    }


def test_bisection_finds_the_first_size_that_is_caught() -> None:
    limits = [0, 1, 7, 55, 56, None]
    found = bisected(
        len(limits),
        lambda sizes: [m is not None and s >= m for s, m in zip(sizes, limits, strict=True)],
        len(LADDER),
    )
    assert found == limits


def test_parts_lie_where_no_axis_cuts() -> None:
    entry = {"name": "layers.0", "shape": [16, 2, 64], "placements": {"tp": {"shard": 2}}}
    dim, begin, width = part_of(entry, 1 / 16)
    assert (dim, width) == (0, 1) and 0 <= begin < 16
    assert part_of(entry, 1 / 64) is None
    assert part_of({**entry, "placements": {}}, 1 / 64)[::2] == (2, 1)
    assert part_of({**entry, "placements": {"dp": {"flat": [[0, 5], [5, 9]]}}}, 1 / 4) is None


def test_the_grid_is_wide() -> None:
    families = [FAMILY, *framework_rows.families()]
    runs = [(f.name, m.name, r.name) for f in families for m in f.models for r in m.runs]
    assert len(runs) == len(set(runs)) >= 150
    for family in families:
        assert family.launcher.is_file()
        for model in family.models:
            names = [case for ranks in model.worlds for case in model.cases(ranks)]
            assert len(names) == len(set(names))
            known = {run.name for run in model.runs}
            assert known >= {*model.sampled, *model.emptied}
            assert json.loads(json.dumps(model.reference)) == model.reference
    faults = [fault for f in families for m in f.models for fault in m.faults]
    assert all(isinstance(fault, Fault) and fault.first for fault in faults)
