"""A tensor that several threads measure part by part: the same numbers as numpy's, and the same
report for any number of threads."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
from support.reports import nine_digits, read_report
from support.synth import synth, tensors
from support.ttrace_cli import MATCH, run_ttrace

ROWS, COLUMNS = 4100, 4100  # more than 2^24 elements
TENSORS = tensors(1, [ROWS, COLUMNS], name="w", placements={"tp": {"shard": 1}})


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("large")
    for output, flags in {
        "ref.h5": (),
        "noise.h5": ("--noise", "1", "--noise-seed", "1"),
        "run": ("--noise", "1", "--noise-seed", "2"),
    }.items():
        synth(folder / output, TENSORS, *flags, mesh={"tp": 2})
    return folder


def values(file: Path) -> np.ndarray:
    with h5py.File(file) as opened:
        paths: list[str] = []
        opened.visititems(
            lambda name, item: paths.append(name) if isinstance(item, h5py.Dataset) else None
        )
        [path] = [name for name in paths if name.endswith("/w")]
        return opened[path][()].astype(np.float64)


def test_sections_make_up_the_tensor(traces: Path, tmp_path: Path) -> None:
    reports = []
    for threads in ("1", "3"):
        path = tmp_path / f"{threads}.json"
        done = run_ttrace(
            "compare",
            traces / "ref.h5",
            traces / "run",
            *("--noise", traces / "noise.h5"),
            *("--threads", threads, "--json", path),
            timeout=300,
        )
        assert done.returncode == MATCH, done.stdout
        report = read_report(path)
        del report["environment"]
        reports.append(report)
    assert reports[0] == reports[1]
    [result] = reports[0]["results"]
    assert result["rule"] == "noise"

    reference = values(traces / "ref.h5")
    candidate = np.concatenate(
        [values(traces / "run" / f"rank_{rank:05d}.h5") for rank in range(2)], axis=1
    )
    difference = candidate - reference
    error = np.linalg.norm(difference) / np.linalg.norm(reference)
    assert result["error"] == pytest.approx(error, rel=1e-9)
    largest = result["max_abs"]  # of several as large, any
    row, column = largest["index"]
    assert abs(difference[row, column]) == np.abs(difference).max()
    assert largest["value"] == nine_digits(np.abs(difference).max())
    assert largest["rank"] == int(column >= COLUMNS // 2)
    assert largest["local_index"] == [row, column % (COLUMNS // 2)]


def test_a_calibration_gives_the_same_verdict(traces: Path, tmp_path: Path) -> None:
    tolerance = tmp_path / "tolerance.json"
    made = run_ttrace(
        "calibrate", traces / "ref.h5", traces / "noise.h5", "-o", tolerance, timeout=300
    )
    assert made.returncode == 0, made.stderr
    allowed = []
    for flags in (("--noise", traces / "noise.h5"), ("--tolerance", tolerance)):
        path = tmp_path / "report.json"
        done = run_ttrace(
            "compare", traces / "ref.h5", traces / "run", *flags, "--json", path, timeout=300
        )
        assert done.returncode == MATCH
        [result] = json.loads(path.read_text())["results"]
        allowed.append(result["allowed"])
    assert allowed[0] == pytest.approx(allowed[1], rel=0.01)
