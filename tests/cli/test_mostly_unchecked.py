"""The first line counts what was not checked, and a run that was mostly not checked is no match."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.reports import read_report
from support.ttrace_cli import DIVERGED, INCONCLUSIVE, MATCH, TESTDATA

from .conftest import Run
from .small_traces import check_answer

REFERENCE = TESTDATA / "ref.h5"
HEALTHY = TESTDATA / "tp2sp"
BUGGY = TESTDATA / "tp2sp_p12"
COMPUTED = 141  # outputs, the loss, gradients, their norm and updated parameters


def wide(folder: Path, *rules: dict[str, object]) -> tuple[str, Path]:
    """Flags with a tolerance file that allows the tensors of `rules` more than they are."""
    path = folder / "rules.json"
    document = {"schema": "ttrace.tolerance/1", "rules": [{**r, "absolute": 1e6} for r in rules]}
    path.write_text(json.dumps(document))
    return "--tolerance", path


def test_a_few_unchecked_tensors_stand_on_the_first_line(ttrace: Run, tmp_path: Path) -> None:
    flags = wide(tmp_path, {"name": "layers.0.*", "kind": "output"})
    done = ttrace("compare", REFERENCE, HEALTHY, *flags, "--json", tmp_path / "report.json")
    check_answer(done, MATCH, "MATCH  196 of 202 tensors agree (allowed error: ")
    assert "; 6 below the noise floor; " in done.stdout.splitlines()[0]
    coverage = read_report(tmp_path / "report.json")["coverage"]
    assert coverage == {
        "tensors": 202,
        "selected": 202,
        "agree": 196,
        "computed": COMPUTED,
        "computed_unchecked": 6,
        "remarks": [
            {
                "name": "below_noise_floor",
                "tensors": 6,
                "unchecked": True,
                "text": "6 below the noise floor",
            }
        ],
    }


def test_a_run_that_was_mostly_not_checked_is_no_match(ttrace: Run, tmp_path: Path) -> None:
    kinds = ["output", "grad_output", "param_grad"]
    flags = wide(tmp_path, {"name": "*", "kind": kinds})
    done = ttrace("compare", REFERENCE, HEALTHY, *flags, "--json", tmp_path / "report.json")
    coverage = read_report(tmp_path / "report.json")["coverage"]
    assert (coverage["computed"], coverage["computed_unchecked"]) == (COMPUTED, 74)
    check_answer(
        done,
        INCONCLUSIVE,
        "INCONCLUSIVE  nothing diverged, but 74 of 141 tensors that the step computes were not "
        "checked; 74 below the noise floor",
    )


def test_what_was_not_checked_is_counted_beside_a_divergence(ttrace: Run, tmp_path: Path) -> None:
    flags = wide(tmp_path, {"name": "layers.0.*", "kind": "output"})
    done = ttrace("compare", REFERENCE, BUGGY, *flags)
    check_answer(done, DIVERGED, "DIVERGED  ", first="layers.0.norm1.weight · main_grad · step 0")
    assert done.stdout.splitlines()[0].endswith("over tp (2 ranks); 6 below the noise floor")


@pytest.mark.parametrize("run", [HEALTHY, BUGGY])
def test_the_first_line_has_at_most_200_characters(ttrace: Run, tmp_path: Path, run: Path) -> None:
    flags = wide(tmp_path, {"name": "layers.0.*", "kind": "output"})
    for more in ([], [*flags], ["--common"], ["--common", *flags], ["--part", "1/3"]):
        first = ttrace("compare", REFERENCE, run, *more).stdout.splitlines()[0]
        assert len(first) <= 200, first
