"""compare --common: what both sides have is judged, and the rest is counted on the first line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.ttrace_cli import DIVERGED, INCONCLUSIVE, MATCH

from .conftest import Run
from .rank_files import entry, write_single
from .small_traces import check_answer, check_refused

X = np.arange(1, 5, dtype="f4")


def write(path: Path, *own: tuple[str, str], error: float = 0) -> Path:
    """A weight, a value and a loss, and of the others as many as are named."""
    tensors = [
        (entry("fc.weight", (4,)), X),
        (entry("fc", (4,), "output"), X + error),
        (entry("loss", (), "loss"), X[0]),
    ]
    return write_single(path, tensors + [(entry(name, (4,), kind), X) for name, kind in own])


def test_what_one_side_has_alone_is_left_out_and_counted(ttrace: Run, tmp_path: Path) -> None:
    reference = write(tmp_path / "ref.h5", ("mask", "input"), ("table", "output"))
    run = write(tmp_path / "run.h5", ("cos", "output"))
    assert ttrace("compare", reference, run).returncode == DIVERGED
    done = ttrace("compare", reference, run, "--common", "--json", tmp_path / "report.json")
    check_answer(done, MATCH, "MATCH  3 of 3 selected tensors agree (of 6)")
    first = " ".join(done.stdout.split("\n\n")[0].split())
    assert "3 tensors that only one side has left out (2 of the reference, 1 of the" in first
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["left_out"] == {"reference": 2, "candidate": 1}
    assert report["counts"]["skipped_by_rule"] == 3
    assert report["counts"]["missing"] == report["counts"]["extra"] == 0


def test_an_error_in_what_both_have_is_found(ttrace: Run, tmp_path: Path) -> None:
    reference = write(tmp_path / "ref.h5", ("mask", "input"))
    run = write(tmp_path / "run.h5", error=1)
    done = ttrace("compare", reference, run, "--common")
    check_answer(done, DIVERGED, "DIVERGED  ", first="fc · output · step 0")
    assert "1 tensor that only one side has left out" in " ".join(done.stdout.split())


@pytest.mark.parametrize("kind", ["param", "loss", "main_grad"])
@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_what_matters_most_is_not_left_out_in_silence(
    ttrace: Run, tmp_path: Path, kind: str, side: str
) -> None:
    traces = {"reference": tmp_path / "ref.h5", "candidate": tmp_path / "run.h5"}
    for name, path in traces.items():
        write(path, *([("own", kind)] if name == side else []))
    done = ttrace("compare", *traces.values(), "--common")
    check_answer(done, INCONCLUSIVE, f"INCONCLUSIVE  nothing diverged, but own · {kind} · step 0")
    assert "because one side alone has it" in " ".join(done.stdout.split())


def test_parts_of_another_kind_of_comparison_are_not_joined(ttrace: Run, tmp_path: Path) -> None:
    reference = write(tmp_path / "ref.h5", ("mask", "input"))
    run = write(tmp_path / "run.h5")
    parts = [tmp_path / f"part{i}.json" for i in (1, 2)]
    for i, flags in ((1, ["--common"]), (2, [])):
        ttrace(
            "compare", reference, run, "--part", f"{i}/2", "--json", parts[i - 1], *flags
        )  # fmt: skip
    check_refused(ttrace("report", "merge", *parts), "--common")
    ttrace("compare", reference, run, "--part", "2/2", "--json", parts[1], "--common")
    check_answer(
        ttrace("report", "merge", *parts), MATCH, "MATCH  3 of 3 selected tensors agree (of 4)"
    )
