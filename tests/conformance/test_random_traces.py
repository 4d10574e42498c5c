"""`ttrace compare` against numpy on random traces: every placement, several meshes, micro-batches,
with a wrong element or a replica that differs somewhere.

TTRACE_RANDOM_TRACES=1000 tries as many; the suite tries a few.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from support.reports import Json, read_report
from support.ttrace_cli import DIVERGED, MATCH, run_ttrace

from conformance.random_traces import Expected, random_trace, write

TRACES = int(os.environ.get("TTRACE_RANDOM_TRACES", "48"))
BATCH = 8


def check(result: Json, expected: Expected, finding: Json | None) -> None:
    assert result["outcome"] == expected.outcome
    assert result["reference_norm"] == pytest.approx(expected.reference_norm, rel=1e-8)
    if expected.outcome != "replica_conflict":
        assert result["difference_norm"] == pytest.approx(expected.difference_norm, rel=1e-8)
    if expected.outcome == "diverged":
        assert result["max_abs"]["value"] == expected.largest
    if expected.classes is not None:
        assert finding is not None
        assert sorted(finding["replica_classes"]) == sorted(expected.classes)


@pytest.mark.parametrize("batch", range(-(-TRACES // BATCH)))
def test_numpy_finds_the_same(batch: int, tmp_path: Path) -> None:
    for seed in range(batch * BATCH, min((batch + 1) * BATCH, TRACES)):
        trace = random_trace(seed)
        reference, run = write(trace, tmp_path / str(seed))
        done = run_ttrace("compare", reference, run, "--json", tmp_path / "out.json", "--quiet")
        bad = any(expected.outcome != "match" for expected in trace.expected.values())
        assert done.returncode == (DIVERGED if bad else MATCH), (seed, done.stdout, done.stderr)
        report = read_report(tmp_path / "out.json")
        findings = {finding["id"]: finding for finding in report["findings"]}
        results = {result["key"]["name"]: result for result in report["results"]}
        assert results.keys() == trace.expected.keys(), seed
        for name, expected in trace.expected.items():
            result = results[name]
            try:
                check(result, expected, findings.get(result["id"]))
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, tensor {name}: {error}") from error
        (tmp_path / "out.json").unlink()
        shutil.rmtree(tmp_path / str(seed))
