"""--layout: what a collector did not know of the layout is corrected afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
from support.ttrace_cli import DIVERGED, MATCH

from .conftest import Run
from .rank_files import entry, mesh, write_json, write_run, write_single
from .small_traces import check_answer, check_match, check_refused

WHOLE = np.arange(1, 25, dtype="f4").reshape(12, 2)
CUTS = {
    "shard": ({"shard": 0}, [WHOLE[:6], WHOLE[6:]]),
    "other dimension": ({"shard": 1}, [WHOLE[:, :1], WHOLE[:, 1:]]),
    "zigzag": ({"shard": 0, "order": "zigzag"}, [WHOLE[[0, 1, 2, 9, 10, 11]], WHOLE[3:9]]),
    "segments": (
        {"shard": 0, "segments": [8, 4]},
        [WHOLE[[0, 1, 2, 3, 8, 9]], WHOLE[[4, 5, 6, 7, 10, 11]]],
    ),
    "stride": (
        {"shard": 0, "stride": 2},
        [WHOLE[[0, 1, 2, 6, 7, 8]], WHOLE[[3, 4, 5, 9, 10, 11]]],
    ),
    "partial": ({"partial": "sum"}, [WHOLE - 1, np.ones_like(WHOLE)]),
}


def ignorant_run(folder: Path, parts: list[np.ndarray], **members: object) -> Path:
    """Two ranks' parts, taken for copies of one tensor."""
    described = entry("fc.weight", parts[0].shape, **members)
    return write_run(folder / "run", {"": mesh(tp=2)}, 2, [(described, dict(enumerate(parts)))])


def rules_file(folder: Path, *rules: dict, **members: object) -> Path:
    document = {"schema": "ttrace.layout/1", "rules": list(rules)} | members
    return write_json(folder / "layout.json", document)


@pytest.mark.parametrize("name", CUTS)
def test_a_rule_says_how_a_tensor_is_cut(ttrace: Run, tmp_path: Path, name: str) -> None:
    placement, parts = CUTS[name]
    reference = write_single(tmp_path / "ref.h5", [(entry("fc.weight", WHOLE.shape), WHOLE)])
    run = ignorant_run(tmp_path, parts)
    rules = rules_file(tmp_path, {"name": "fc.*", "placements": {"tp": placement}})
    assert ttrace("compare", reference, run).returncode != MATCH
    done = ttrace("compare", reference, run, "--layout", rules)
    check_match(done, 1)
    assert f"{rules}" in done.stdout
    check_answer(ttrace("lint", run, "--layout", rules), MATCH, "CLEAN  1 tensor over 2 ranks")
    merged = tmp_path / "merged.h5"
    check_answer(ttrace("merge", run, "--layout", rules, "-o", merged), MATCH, "MERGED  1 tensor")
    with h5py.File(merged) as file:
        assert np.array_equal(file["step_000000/param/fc.weight"][()], WHOLE)


def test_inspect_shows_the_corrected_layout(ttrace: Run, tmp_path: Path) -> None:
    run = ignorant_run(tmp_path, CUTS["shard"][1])
    rules = rules_file(tmp_path, {"name": "fc.weight", "placements": {"tp": {"shard": 0}}})
    before = ttrace("inspect", run, "fc.weight").stdout
    assert "replicas over tp" in before
    after = ttrace("inspect", run, "fc.weight", "--layout", rules, "--values")
    assert after.returncode == MATCH
    assert "[6, 2] -> [12, 2], dimension 0 cut over tp" in after.stdout
    assert f"norm {np.linalg.norm(WHOLE):.3g}" in after.stdout


def test_a_given_shape_and_uneven_shards(ttrace: Run, tmp_path: Path) -> None:
    parts = [WHOLE[:7], WHOLE[7:]]
    reference = write_single(tmp_path / "ref.h5", [(entry("fc.weight", WHOLE.shape), WHOLE)])
    run = ignorant_run(tmp_path, parts)
    check_answer(ttrace("lint", run), DIVERGED, "FINDINGS  1 in ")
    rule = {"name": "fc.weight", "placements": {"tp": {"shard": 0, "sizes": [7, 5]}}}
    rules = rules_file(tmp_path, rule | {"shape": [12, 2]})
    check_match(ttrace("compare", reference, run, "--layout", rules), 1)
    rules = rules_file(tmp_path, rule | {"shape": [13, 2]})
    done = ttrace("compare", reference, run, "--layout", rules)
    check_refused(done, run, "fc.weight", "12", "13")


def test_flat_ranges_need_the_shape(ttrace: Run, tmp_path: Path) -> None:
    flat = [WHOLE.ravel()[:10], WHOLE.ravel()[10:]]
    reference = write_single(tmp_path / "ref.h5", [(entry("fc.weight", WHOLE.shape), WHOLE)])
    run = ignorant_run(tmp_path, flat)
    rule = {"name": "*", "placements": {"tp": {"flat": [[0, 10], [10, 24]]}}}
    rules = rules_file(tmp_path, rule)
    done = ttrace("compare", reference, run, "--layout", rules)
    check_refused(done, f"{rules}: /rules/0: ", 'give it as "shape"')
    rules = rules_file(tmp_path, rule | {"shape": [12, 2]})
    check_match(ttrace("compare", reference, run, "--layout", rules), 1)


def test_heads_on_more_ranks_than_there_are_get_a_mesh(ttrace: Run, tmp_path: Path) -> None:
    halves = [WHOLE[:6], WHOLE[:6], WHOLE[6:], WHOLE[6:]]
    described = entry("k.weight", (24, 2), placements={"tp": {"shard": 0}})
    run = write_run(tmp_path / "run", {"": mesh(tp=4)}, 4, [(described, dict(enumerate(halves)))])
    reference = write_single(tmp_path / "ref.h5", [(entry("k.weight", WHOLE.shape), WHOLE)])
    rule = {"name": "k.weight", "mesh": "kv", "placements": {"head": {"shard": 0}}}
    rules = rules_file(tmp_path, rule, meshes={"kv": mesh(head=2, copy=2)})
    check_match(ttrace("compare", reference, run, "--layout", rules), 1)
    assert ttrace("compare", reference, run).returncode != MATCH


def test_a_scale_is_corrected(ttrace: Run, tmp_path: Path) -> None:
    reference = write_single(tmp_path / "ref.h5", [(entry("fc.weight", WHOLE.shape), WHOLE)])
    run = ignorant_run(tmp_path, [WHOLE * 2, WHOLE * 2], placements={"tp": "replicate"})
    rules = rules_file(tmp_path, {"name": "fc.weight", "kind": "param", "scale": 0.5})
    check_match(ttrace("compare", reference, run, "--layout", rules), 1)
    done = ttrace("compare", reference, run)
    check_answer(done, DIVERGED, "DIVERGED  ", first="fc.weight")


def test_layout_and_map_work_together(ttrace: Run, tmp_path: Path) -> None:
    reference = write_single(tmp_path / "ref.h5", [(entry("w", (2, 12)), WHOLE.T)])
    run = ignorant_run(tmp_path, CUTS["zigzag"][1])
    rules = rules_file(tmp_path, {"name": "fc.weight", "placements": {"tp": CUTS["zigzag"][0]}})
    renamed = {"from": "fc.weight", "to": "w", "transpose": [1, 0]}
    map_rules = write_json(
        tmp_path / "map.json", {"schema": "ttrace.map/2", "candidate": [renamed]}
    )
    report = tmp_path / "report.json"
    done = ttrace(
        "compare", reference, run, "--layout", rules, "--map", map_rules, "--json", report
    )
    check_match(done, 1)
    assert json.loads(report.read_text())["verdict"] == "match"


def test_a_rule_that_changes_nothing_of_the_trace_is_refused(ttrace: Run, tmp_path: Path) -> None:
    run = ignorant_run(tmp_path, CUTS["shard"][1])
    rules = rules_file(tmp_path, {"name": "fc.wieght", "placements": {"tp": {"shard": 0}}})
    output = tmp_path / "merged.h5"
    for command in (
        ("compare", run, run, "--layout", rules),
        ("lint", run, "--layout", rules),
        ("lint", run, "--manifest-only", "--layout", rules),
        ("inspect", run, "--layout", rules),
        ("merge", run, "-o", output, "--layout", rules),
    ):
        check_refused(
            ttrace(*command), f"{rules}: /rules/0: ", "fc.wieght; the nearest name is fc.weight"
        )
    assert not output.exists()


def test_merge_does_not_replace_the_rules(ttrace: Run, tmp_path: Path) -> None:
    run = ignorant_run(tmp_path, CUTS["shard"][1])
    rules = rules_file(tmp_path, {"name": "fc.weight", "placements": {"tp": {"shard": 0}}})
    before = rules.read_bytes()
    check_refused(ttrace("merge", run, "--layout", rules, "-o", rules), rules)
    assert rules.read_bytes() == before


def test_the_trace_itself_is_not_changed(ttrace: Run, tmp_path: Path) -> None:
    run = ignorant_run(tmp_path, CUTS["shard"][1])
    before = {path: path.read_bytes() for path in run.iterdir()}
    rules = rules_file(tmp_path, {"name": "fc.weight", "placements": {"tp": {"shard": 0}}})
    ttrace("lint", run, "--layout", rules)
    ttrace("compare", run, run, "--layout", rules)
    assert {path: path.read_bytes() for path in run.iterdir()} == before


@pytest.mark.parametrize("name", ["fc.weight", 'a"b', "a\\b", '", "x": "', "{é}: [1]"])
@pytest.mark.parametrize("axis", ["tp", 't"p\\'])
def test_the_rule_of_a_layout_that_was_followed_is_json(
    ttrace: Run, tmp_path: Path, name: str, axis: str
) -> None:
    whole = np.random.default_rng(0).normal(size=(12, 2)).astype("f4")
    reference = write_single(tmp_path / "ref.h5", [(entry(name, whole.shape), whole)])
    described = entry(name, (6, 2))
    parts = {0: whole[:6], 1: whole[6:]}
    run = write_run(tmp_path / "run", {"": mesh(**{axis: 2})}, 2, [(described, parts)])
    report = tmp_path / "report.json"
    assert ttrace("compare", reference, run, "--json", report).returncode == DIVERGED
    (followed,) = json.loads(report.read_text())["followed_layouts"]
    rule = json.loads(followed["rule"])
    assert (rule["name"], rule["placements"]) == (name, {axis: {"shard": 0}})
    check_match(ttrace("compare", reference, run, "--layout", rules_file(tmp_path, rule)), 1)
    located = ttrace("localize", reference, run, "--report", report)
    assert located.returncode == DIVERGED, located.stderr
