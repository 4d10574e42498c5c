"""What `ttrace compare` sums over real shards is what an independent merge gives."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from support.reports import DIGITS, read_report
from support.ttrace_cli import TESTDATA

from .conftest import Run
from .numpy_merge import key_of, merged, norm


@pytest.mark.parametrize("name", ["tp2sp", "tp2sp_p12"])
def test_every_tensor_has_numpys_sums(ttrace: Run, tmp_path: Path, name: str) -> None:
    report_path = tmp_path / "report.json"
    ttrace("compare", TESTDATA / "ref.h5", TESTDATA / name, "--json", report_path)
    report = read_report(report_path)
    references = merged(TESTDATA / "ref.h5")
    candidates = merged(TESTDATA / name)
    results = {key_of(result["key"]): result for result in report["results"]}
    assert set(results) == set(references) == set(candidates)
    assert len(results) == 202
    for key, result in results.items():
        r, c = references[key], candidates[key]
        d = c - r
        expected = {
            "difference_norm": norm(d),
            "reference_norm": norm(r),
            "candidate_norm": norm(c),
        }
        if norm(r) > 0:
            expected["scale"] = math.fsum((r * c).ravel()) / math.fsum((r * r).ravel())
            expected["error"] = norm(d) / norm(r)
        replay = result.get("replay")
        # A norm that is off because its gradients are stays compared with the reference's.
        replayed = ("param_after_step", "grad_norm")[: 1 if name == "tp2sp_p12" else 2]
        assert (replay is not None) == (key[2] in replayed)
        if replay is not None:
            # Its own numbers are about what it should have been.
            own = expected.pop("candidate_norm")
            assert math.isclose(result["candidate_norm"], own, rel_tol=DIGITS)
            del expected["scale"]
        if result["outcome"] == "replica_conflict":
            del expected["error"]  # the distance of the copies, which has a test of its own
        numbers = result if replay is None else replay["against_reference"]
        for member, value in expected.items():
            assert math.isclose(numbers[member], value, rel_tol=DIGITS), (key, member)
        if replay is None:
            assert result["unequal"] == (d != 0).sum()


def test_a_merged_trace_holds_numpys_values(ttrace: Run, tmp_path: Path) -> None:
    whole = tmp_path / "whole.h5"
    assert ttrace("merge", TESTDATA / "tp2sp", "-o", whole).returncode == 0
    of_shards, of_file = merged(TESTDATA / "tp2sp"), merged(whole)
    assert set(of_shards) == set(of_file)
    for key, value in of_shards.items():
        assert (of_file[key] == value).all(), key
