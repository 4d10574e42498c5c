"""A report says which traces it is of and what was compared of them; who reads it looks."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import h5py
import pytest
from support.reports import read_report
from support.ttrace_cli import DIVERGED, MATCH, TESTDATA, UNUSABLE

from .conftest import Run
from .small_traces import check_refused

REFERENCE = TESTDATA / "ref.h5"
HEALTHY = TESTDATA / "tp2sp"
# The same ranks, sizes and tensors as the healthy run, other values and another id.
FAULTY = TESTDATA / "tp2sp_p12"
SPECIFICATION = ["--specification", TESTDATA / "specification.json"]
WHOLE = {"only": [], "skip": [], "kind": [], "step": []}


def compared(ttrace: Run, out: Path, run: Path, *flags: str | Path) -> dict[str, Any]:
    done = ttrace("compare", REFERENCE, run, *flags, "--json", out)
    assert done.returncode in (MATCH, DIVERGED), done.stderr
    return read_report(out)


def copied(tmp_path: Path, run: Path = HEALTHY) -> Path:
    return Path(shutil.copytree(run, tmp_path / "copy"))


def test_every_report_identifies_its_traces(tmp_path: Path, ttrace: Run) -> None:
    report = compared(ttrace, tmp_path / "compare.json", HEALTHY)
    candidate = report["identity"]["candidate"]
    assert candidate["bytes"] == sum(file.stat().st_size for file in HEALTHY.glob("rank_*.h5"))
    manifest = json.loads((HEALTHY / "manifest.json").read_text())
    assert candidate["run_id"] == manifest["run"]["id"] != ""
    assert report["selection"] == {**WHOLE, "common": False}
    place = report["environment"]["traces"]["candidate"]
    assert place["path"] == str(HEALTHY.absolute())
    assert place["modified"] == max(int(p.stat().st_mtime) for p in HEALTHY.glob("rank_*.h5"))
    assert ttrace("audit", HEALTHY, "--json", tmp_path / "audit.json").returncode != UNUSABLE
    audit = read_report(tmp_path / "audit.json")
    assert audit["identity"] == {"run": candidate}
    assert audit["selection"] == WHOLE
    assert ttrace("localize", REFERENCE, HEALTHY, "--json", tmp_path / "l.json").returncode == MATCH
    assert read_report(tmp_path / "l.json")["identity"] == report["identity"]


@pytest.mark.parametrize(
    "lie", ["another run", "its id", "swapped", "a value", "no identity", "run id"]
)
def test_a_report_of_other_traces_is_refused(tmp_path: Path, ttrace: Run, lie: str) -> None:
    report = tmp_path / "report.json"
    run = copied(tmp_path)
    made = compared(ttrace, report, run)
    assert made["verdict"] == "match"
    traces = [REFERENCE, run]
    if lie == "another run":
        traces[1] = FAULTY
    elif lie == "its id":  # the values of another run under the manifest of this one
        traces[1] = copied(tmp_path / "other", FAULTY)
        shutil.copy(run / "manifest.json", traces[1])
    elif lie == "swapped":
        traces = [TESTDATA / "noise1.h5", run]
    elif lie == "a value":
        with h5py.File(run / "rank_00001.h5", "r+") as file:
            weight = file["step_000000/param_after_step/final_norm.weight"]
            weight[0] += 1
    elif lie == "no identity":
        made["identity"]["candidate"] = None
        report.write_text(json.dumps(made))
    else:
        made["identity"]["candidate"]["run_id"] = "3f2a"
        report.write_text(json.dumps(made))
    done = ttrace("localize", *traces, "--report", report)
    assert done.returncode == UNUSABLE
    check_refused(done, str(report), "leave --report out to compare again")


def test_a_report_travels_with_its_traces(tmp_path: Path, ttrace: Run) -> None:
    report = tmp_path / "report.json"
    compared(ttrace, report, FAULTY)
    there = copied(tmp_path, FAULTY)
    for file in there.iterdir():
        file.touch()
    done = ttrace("localize", REFERENCE, there, *SPECIFICATION, "--report", report)
    assert done.returncode == DIVERGED
    assert "*** HERE ***" in done.stdout
    assert f"candidate {there}" in done.stdout.replace("\n    ", "")


def test_a_report_of_a_part_is_refused(tmp_path: Path, ttrace: Run) -> None:
    report = tmp_path / "report.json"
    compared(ttrace, report, HEALTHY, "--part", "1/2")
    done = ttrace("localize", REFERENCE, HEALTHY, "--report", report)
    assert done.returncode == UNUSABLE
    check_refused(done, "part 1 of 2", "ttrace report merge")


@pytest.mark.parametrize("now", [True, False])
def test_what_was_selected_stands_on_the_first_line(tmp_path: Path, ttrace: Run, now: bool) -> None:
    report, out = tmp_path / "report.json", tmp_path / "out.json"
    only = ["--only", "layers.0.mlp*", "--kind", "output"]
    made = compared(ttrace, report, FAULTY, *only)
    assert made["selection"] == {**WHOLE, "only": ["layers.0.mlp*"], "kind": ["output"],
                                 "common": False}  # fmt: skip
    flags = only if now else ["--report", report]
    done = ttrace("localize", REFERENCE, FAULTY, *flags, "--json", out)
    assert done.returncode == MATCH
    left_out = made["counts"]["skipped_by_rule"]
    assert left_out > 100
    assert done.stdout.splitlines()[0] == (
        f"NOTHING TO EXPLAIN  the comparison is a match, but {left_out} of "
        f"{made['counts']['total']} tensors were left out (--only layers.0.mlp* and --kind output)"
    )
    assert read_report(out)["selection"] == made["selection"]


@pytest.mark.parametrize(
    "flags", [["--only", "*"], ["--kind", "output"], ["--noise", TESTDATA / "noise1.h5"]]
)
def test_flags_without_effect_beside_a_report_are_refused(
    tmp_path: Path, ttrace: Run, flags: list[str | Path]
) -> None:
    report = tmp_path / "report.json"
    compared(ttrace, report, HEALTHY)
    done = ttrace("localize", REFERENCE, HEALTHY, "--report", report, *flags)
    assert done.returncode == UNUSABLE
    check_refused(done, f"{flags[0]} has no effect beside --report")
