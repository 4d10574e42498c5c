"""ttrace compare --truth: a second opinion beside every verdict, which it never changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conformance.write_trace import Tensor, write_candidate, write_reference
from support.reports import DIGITS, findings, read_report
from support.ttrace_cli import DIVERGED, MATCH, UNUSABLE

from .conftest import Run
from .small_traces import check_answer, check_refused

ROWS, COLUMNS = 12, 16
EXACT = np.random.default_rng(7).standard_normal((ROWS, COLUMNS))


def bfloat16(values: np.ndarray) -> np.ndarray:
    """Bit patterns, rounded to nearest even."""
    bits = np.asarray(values, "<f4").view("<u4")
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")


def widened(bits: np.ndarray) -> np.ndarray:
    return (bits.astype("<u4") << 16).view("<f4").astype("f8")


def write_runs(folder: Path, candidate: np.ndarray, truth: list[Tensor]) -> list[Path]:
    """A bf16 reference of one process, a candidate cut over two ranks, a truth over two others."""
    write_reference(folder / "ref.h5", [Tensor("fc", "output", "bfloat16", bfloat16(EXACT))])
    moved = Tensor("fc", "output", "bfloat16", bfloat16(candidate), {"shard": 0})
    write_candidate(folder / "run", [moved])
    write_candidate(folder / "truth", truth)
    return [folder / name for name in ("ref.h5", "run", "truth")]


def compared(ttrace: Run, ref: Path, run: Path, truth: Path, *more: str | Path) -> Any:
    """The report and the text; verdict, exit code and outcomes are those without the truth."""
    out = ref.parent / "report.json"
    done = ttrace("compare", ref, run, "--truth", truth, "--json", out, *more)
    report = read_report(out)
    alone = ttrace("compare", ref, run, "--json", ref.parent / "alone.json", *more)
    without = read_report(ref.parent / "alone.json")
    assert (done.returncode, report["verdict"]) == (alone.returncode, without["verdict"])
    assert [r["outcome"] for r in report["results"]] == [r["outcome"] for r in without["results"]]
    assert "truth" not in without
    assert not any("truth" in result for result in without["results"])
    return report, done


def test_a_float64_truth_in_another_layout_gives_the_ratio(tmp_path: Path, ttrace: Run) -> None:
    candidate = EXACT * 1.25
    truth = [Tensor("fc", "output", "float64", EXACT, {"shard": 1})]
    report, done = compared(ttrace, *write_runs(tmp_path, candidate, truth))
    check_answer(done, DIVERGED, "DIVERGED  ", first="fc")
    off = np.linalg.norm(widened(bfloat16(candidate)) - EXACT)
    own = np.linalg.norm(widened(bfloat16(EXACT)) - EXACT)
    (result,) = report["results"]
    size = np.linalg.norm(EXACT)
    assert result["truth"] == {
        "dtype": "float64",
        "candidate_error": pytest.approx(off / size, rel=DIGITS),
        "reference_error": pytest.approx(own / size, rel=DIGITS),
        "ratio": pytest.approx(off / own, rel=DIGITS),
        "left_out": 0,
    }
    assert findings(report)[0]["truth"] == result["truth"]
    assert report["truth"]["worst"] == {
        "ratio": pytest.approx(off / own, rel=1e-12),
        "key": result["key"],
    }
    assert (report["truth"]["compared"], report["truth"]["ranks"]) == (1, 2)
    assert f"     truth    error {off / own:.0f} × that of the reference" in done.stdout
    assert "; of 1 tensor; 0 without truth; it does not affect the verdict\n" in done.stdout
    assert done.stderr == ""


def test_a_healthy_run_stands_near_one(tmp_path: Path, ttrace: Run) -> None:
    # Another order of roundings: as far from the truth as the reference, and not equal to it.
    twice = widened(bfloat16(EXACT * 3)) / 3
    truth = [Tensor("fc", "output", "float32", EXACT.astype("<f4"), {"shard": 0})]
    report, done = compared(ttrace, *write_runs(tmp_path, twice, truth))
    check_answer(done, MATCH, "MATCH  1 tensor agrees")
    assert report["results"][0]["error"] > 0
    assert 0.7 < report["truth"]["median_ratio"] < 2
    assert "     truth " not in done.stdout


def test_missing_and_other_shapes_are_counted(tmp_path: Path, ttrace: Run) -> None:
    runs = write_runs(tmp_path, EXACT, [Tensor("fc", "output", "float64", EXACT[:4], {"shard": 0})])
    report, done = compared(ttrace, *runs)
    assert report["truth"]["incomparable"] == 1
    assert "fc · output · step 0: [4, 16] f64, and [12, 16] bf16 in the reference" in done.stderr
    other = tmp_path / "other"
    other.mkdir()
    report, done = compared(
        ttrace, *write_runs(other, EXACT, [Tensor("fb", "output", "float64", EXACT, {"shard": 0})])
    )
    assert (report["truth"]["without"], report["truth"]["compared"]) == (1, 0)
    assert report["truth"]["median_ratio"] is None
    assert "has none of the tensors compared" in done.stderr


def test_a_reference_without_error_says_so(tmp_path: Path, ttrace: Run) -> None:
    exact = widened(bfloat16(EXACT))
    truth = [Tensor("fc", "output", "float64", exact, {"shard": 0})]
    report, done = compared(ttrace, *write_runs(tmp_path, EXACT * 2, truth))
    assert report["results"][0]["truth"]["ratio"] == "inf"
    assert report["truth"]["reference_exact"] == 1
    assert "truth    the reference has no error, the candidate 1 of the truth's norm" in done.stdout


def test_not_finite_is_left_out(tmp_path: Path, ttrace: Run) -> None:
    values = EXACT.copy()
    values[0, 0], values[1, 1] = np.nan, np.inf
    truth = [Tensor("fc", "output", "float64", values, {"shard": 0})]
    report, _ = compared(ttrace, *write_runs(tmp_path, EXACT, truth))
    assert report["results"][0]["truth"]["left_out"] == 2
    assert report["results"][0]["truth"]["ratio"] == 1
    truth[0].stored[:] = np.nan
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    report, _ = compared(ttrace, *write_runs(nothing, EXACT, truth))
    assert report["results"][0]["truth"]["candidate_error"] is None
    assert report["truth"]["worst"] is None


def test_a_truth_no_more_precise_is_warned_of(tmp_path: Path, ttrace: Run) -> None:
    truth = [Tensor("fc", "output", "bfloat16", bfloat16(EXACT), {"shard": 0})]
    _, done = compared(ttrace, *write_runs(tmp_path, EXACT, truth))
    assert "is in no tensor more precise than the reference" in done.stderr


def test_a_map_is_for_the_truth_as_for_the_reference(tmp_path: Path, ttrace: Run) -> None:
    runs = write_runs(tmp_path, EXACT, [Tensor("fc", "output", "float64", EXACT, {"shard": 0})])
    write_candidate(tmp_path / "named", [Tensor("up", "output", "bfloat16", bfloat16(EXACT))])
    rules = {"schema": "ttrace.map/2", "reference": [{"from": "fc", "to": "up"}]}
    (tmp_path / "map.json").write_text(json.dumps(rules))
    report, _ = compared(
        ttrace, runs[0], tmp_path / "named", runs[2], "--map", tmp_path / "map.json"
    )
    assert report["truth"]["compared"] == 1


def test_a_truth_that_cannot_be_used_is_refused(tmp_path: Path, ttrace: Run) -> None:
    ref, run, truth = write_runs(
        tmp_path, EXACT, [Tensor("fc", "output", "float64", EXACT, {"shard": 0})]
    )
    check_refused(ttrace("compare", ref, run, "--truth", tmp_path / "none.h5"), "none.h5")
    done = ttrace("compare", ref, run, "--truth", truth, "--json", truth / "manifest.json")
    assert done.returncode == UNUSABLE
    assert json.loads((truth / "manifest.json").read_text())["schema"] == "ttrace.manifest/2"


def test_a_truth_with_a_lost_rank_is_warned_of(tmp_path: Path, ttrace: Run) -> None:
    ref, run, truth = write_runs(
        tmp_path, EXACT, [Tensor("fc", "output", "float64", EXACT, {"shard": 0})]
    )
    (truth / "rank_00001.h5").unlink()
    report, done = compared(ttrace, ref, run, truth)
    check_answer(done, MATCH, "MATCH  1 tensor agrees")
    assert report["truth"]["unreadable"] == 1
    assert "rank_00001.h5" in done.stderr
