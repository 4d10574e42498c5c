"""Answers of real comparisons follow schemas/answer.schema.json."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import h5py
import jsonschema
import jsonschema_rs
import numpy as np
import pytest
from support.reports import (
    DIGITS,
    SCHEMA_FILES,
    by_id,
    findings,
    read_report,
    result_of,
    schema_of,
    validator,
)
from support.ttrace_cli import TESTDATA

from .conftest import Run
from .write_trace import Tensor, sample_tensors, write_candidate, write_reference

NOISE = [flag for i in (1, 2, 3) for flag in ("--noise", TESTDATA / f"noise{i}.h5")]


def report_of(ttrace: Run, folder: Path, *arguments: str | Path) -> dict:
    path = folder / "report.json"
    done = ttrace("compare", *arguments, "--json", path)
    report = read_report(path)
    assert (report["schema"], report["command"]) == ("ttrace.answer/1", "compare")
    assert done.returncode == report["exit_code"]
    assert done.stdout.startswith(report["verdict"].upper())
    counts = dict(report["counts"])
    assert counts.pop("total") == len(report["results"]) == sum(counts.values())
    return report


@pytest.mark.parametrize("schema", SCHEMA_FILES)
def test_the_schema_is_a_schema(schema: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema_of(schema))


@pytest.mark.parametrize("noise", [[], NOISE], ids=["fallback", "noise"])
def test_a_match(ttrace: Run, tmp_path: Path, noise: list) -> None:
    report = report_of(ttrace, tmp_path, TESTDATA / "ref.h5", TESTDATA / "tp2sp", *noise)
    assert report["verdict"] == "match"
    assert report["tolerance"]["rule"] == ("noise" if noise else "fallback")


def test_how_sharp_a_match_was(ttrace: Run, tmp_path: Path) -> None:
    report = report_of(ttrace, tmp_path, TESTDATA / "ref.h5", TESTDATA / "tp2sp", *NOISE)
    (sharpness,) = report["tolerance"]["sharpness"]
    judged = [
        result["allowed"]
        for result in report["results"]
        if result.get("rule") == "noise" and result["reference_norm"] > 0
    ]
    assert sharpness == {
        "precision": "f32",
        "tensors": len(judged),
        "median": pytest.approx(sorted(judged)[len(judged) // 2], rel=DIGITS),
        "widest": pytest.approx(max(judged), rel=DIGITS),
    }


def test_a_divergence(ttrace: Run, tmp_path: Path) -> None:
    runs = (TESTDATA / "ref.h5", TESTDATA / "tp2sp_p12")
    report = report_of(ttrace, tmp_path, *runs, *NOISE)
    assert report["verdict"] == "diverged"
    assert len(report["findings"]) == 10


def test_findings_alike_are_a_group(ttrace: Run, tmp_path: Path) -> None:
    runs = (TESTDATA / "ref.h5", TESTDATA / "tp2sp_p12")
    report = report_of(ttrace, tmp_path, *runs, *NOISE)
    (group,) = report["groups"]
    assert group["findings"] == [finding["id"] for finding in report["findings"]]
    assert group["id"] == "group:0/synchronisation/main_grad/LayerNorm"
    assert "10 LayerNorm parameters" in group["title"]
    for finding in findings(report):
        assert finding["members"] == [finding["id"]]
        assert finding["downstream_total"] == len(finding["downstream"]) > 0
        # The gradient norm, and the updated parameter.
        kinds = {by_id(report)[id]["key"]["kind"] for id in finding["downstream"]}
        assert kinds <= {"grad_norm", "param_after_step"}


def test_a_large_group_is_listed_in_short_and_has_few_slices(ttrace: Run, tmp_path: Path) -> None:
    def tensors(factor: float) -> list[Tensor]:
        random = np.random.default_rng(7)
        numbers = [random.standard_normal((64, 64)) for _ in range(40)]
        return [
            Tensor(
                f"layers.{i}.weight",
                "main_grad",
                "float32",
                (factor * n).astype("<f4"),
                {"shard": 0},
            )
            for i, n in enumerate(numbers)
        ]

    write_reference(tmp_path / "ref.h5", tensors(1))
    write_reference(tmp_path / "noise.h5", tensors(1 + 1e-6))
    write_candidate(tmp_path / "run", tensors(1.5))
    runs = (tmp_path / "ref.h5", tmp_path / "run", "--noise", tmp_path / "noise.h5")
    report = report_of(ttrace, tmp_path, *runs)
    assert len(report["findings"]) == 40
    (group,) = report["groups"]
    in_full = [item for item in report["findings"] if "causes" in item]
    assert 16 <= len(in_full) <= 17 and group["shown"] in {item["id"] for item in in_full}
    for result in report["results"]:
        beyond, written = result["slices_beyond"], result.get("slices", [])
        assert beyond > 4 and "closest_slice" not in result
        assert len(written) == (4 if result["id"] in {i["id"] for i in in_full} else 0)
        used = [part["error"] / part["allowed"] for part in written]
        assert used == sorted(used, reverse=True)


def test_a_lost_rank(ttrace: Run, tmp_path: Path) -> None:
    shutil.copytree(TESTDATA / "tp2sp", tmp_path / "run")
    (tmp_path / "run" / "rank_00001.h5").unlink()
    report = report_of(ttrace, tmp_path, TESTDATA / "ref.h5", tmp_path / "run")
    assert report["verdict"] == "inconclusive"
    assert report["counts"]["unreadable"] > 0
    lost, told = report["warnings"]
    assert "rank_00001.h5" in lost and "ttrace doctor" in told and "let every rank end" in told


def leave_out(run: Path, **recorded: object) -> None:
    """Says in the manifest what the run was told to record."""
    path = run / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["run"] = {"recorded": {"steps": [0], **recorded}}
    path.write_text(json.dumps(manifest))


def test_every_outcome_and_numbers_that_are_not_finite(ttrace: Run, tmp_path: Path) -> None:
    def floats(name: str, *values: float, kind: str = "output") -> Tensor:
        return Tensor(name, kind, "float32", np.array(values, "<f4"))

    nan = float("nan")
    reference = [
        floats("zero", 0, 0),
        floats("nan", 1, nan),
        floats("nothing", nan, nan),
        floats("shape", 1, 2),
        floats("lost", 1, 2),
        floats("missing", 1, 2),
        floats("noisy", 1, 2),
        floats("left out", 1, 2, kind="scalar"),
        *sample_tensors(),
    ]
    candidate = [
        floats("zero", 0, 1),
        floats("nan", 1, 2),
        floats("nothing", nan, nan),
        floats("shape", 1, 2, 3),
        floats("lost", 1, 2),
        floats("extra", 1, 2),
        floats("noisy", 1, 2.5),
        *sample_tensors(),
    ]
    noise = copy.deepcopy(reference)
    noise[6].stored *= 100
    noise[0].stored += 300  # noise of one tensor alone would not count
    write_reference(tmp_path / "ref.h5", reference)
    write_reference(tmp_path / "noise.h5", noise)
    write_candidate(tmp_path / "run", candidate)
    leave_out(tmp_path / "run", kinds=sorted({tensor.kind for tensor in candidate}))
    with h5py.File(tmp_path / "run" / "rank_00000.h5", "a") as file:
        del file["step_000000/output/lost"]
        file["step_000000/output/fc"] = file["step_000000/mb_0000/output/fc"][()] + 1
        file["step_000000/buffer/mask"][0, 0] ^= True
        file["step_000000/main_grad/fc.weight"][0, 0] = 5
    runs = (tmp_path / "ref.h5", tmp_path / "run", "--noise", tmp_path / "noise.h5")
    report = report_of(ttrace, tmp_path, *runs, "--skip", "act")
    # What routers bring about: tests/cli/test_routing_flips.py.
    elsewhere = {"routing_flip", "after_routing_flip"}
    counts = {name: n for name, n in report["counts"].items() if name not in elsewhere}
    assert all(counts.values()), counts
    text = json.dumps(report)
    assert '"inf"' in text
    told = {name: result_of(report, f"0/-/output/{name}/0/0") for name in ("nan", "zero", "shape")}
    assert told["nan"]["nonfinite"]["different"] == 1 and "nonfinite" not in told["zero"]
    assert told["shape"]["outcome"] == "incomparable" and "error" not in told["shape"]


@pytest.mark.parametrize("outcome", ["incomparable", "missing", "extra"])
def test_a_finding_without_numbers(ttrace: Run, tmp_path: Path, outcome: str) -> None:
    def output(*shape: int) -> Tensor:
        return Tensor("other", "output", "float32", np.ones(shape, "<f4"))

    more = {"incomparable": (output(2), output(3)), "missing": (output(2), None)}
    reference, candidate = more.get(outcome, (None, output(2)))
    write_reference(tmp_path / "ref.h5", [*sample_tensors(), *([reference] if reference else [])])
    write_candidate(tmp_path / "run", [*sample_tensors(), *([candidate] if candidate else [])])
    report = report_of(ttrace, tmp_path, tmp_path / "ref.h5", tmp_path / "run")
    assert report["exit_code"] == 1
    (finding,) = report["findings"]
    assert (finding["outcome"], finding["causes"]) == (outcome, [])
    assert finding["id"] == "0/-/output/other/0/0" and finding["members"] == [finding["id"]]


def test_no_common_tensor(ttrace: Run, tmp_path: Path) -> None:
    write_reference(tmp_path / "ref.h5", sample_tensors()[:1])
    write_candidate(tmp_path / "run", sample_tensors()[1:])
    report = report_of(ttrace, tmp_path, tmp_path / "ref.h5", tmp_path / "run")
    assert report["verdict"] == "inconclusive"


CHANGES = [
    (("more",), 1),
    (("exit_code",), "one"),
    (("why",), ["because"]),
    (("findings",), None),
    (("results", 0, "more"), 1),
    (("results", 0, "error"), "a lot"),
    (("results", 0, "outcome"), "wrong"),
    (("results", 0, "key", "kind"), "a kind"),
    (("results", 0, "phase"), "later"),
    (("findings", 0, "more"), 1),
    (("findings", 0, "outcome"), "wrong"),
    (("findings", 0, "causes", 0, "more"), 1),
    (("findings", 0, "causes", 0, "values"), {"factor": [1]}),
    (("findings", 0, "id"), 7),
    (("findings", 0, "members"), "all"),
    (("findings", 0, "downstream", 0), {"step": 0}),
    (("counts", "more"), "many"),
    (("reference", "ranks"), -1),
    (("schema",), "ttrace.report/2"),
    (("groups", 0, "shown"), None),
    (("groups", 0, "more"), 1),
    (("suspects",), [{"id": "0/-/loss/loss/0/0"}]),
    (("tolerance", "sharpness", 0, "tensors"), "many"),
    (("kinds_in_neither",), [3]),
]


def objects(value: object) -> Iterator[dict]:
    if isinstance(value, dict):
        yield value
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in inside:
        yield from objects(item)


def test_a_newer_report_may_have_more_members(ttrace: Run, tmp_path: Path) -> None:
    runs = (TESTDATA / "ref.h5", TESTDATA / "tp2sp_p12")
    report = report_of(ttrace, tmp_path, *runs)
    for item in list(objects(report)):
        item["of a later version"] = 1
    published = jsonschema_rs.Draft202012Validator(schema_of("ttrace.answer/1"))
    published.validate(report)
    (tmp_path / "newer.json").write_text(json.dumps(report))
    done = ttrace("localize", *runs, "--report", tmp_path / "newer.json")
    assert done.stdout.startswith("FINDINGS  the gradients of 10 of 28 "), done.stderr


def test_the_schema_refuses_what_is_not_a_report(ttrace: Run, tmp_path: Path) -> None:
    runs = (TESTDATA / "ref.h5", TESTDATA / "tp2sp_p12")
    report = report_of(ttrace, tmp_path, *runs)
    for path, value in CHANGES:
        changed = copy.deepcopy(report)
        part = changed
        for step in path[:-1]:
            part = part[step]
        part[path[-1]] = value
        assert not validator(report["schema"]).is_valid(changed), path
