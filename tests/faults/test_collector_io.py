"""The collector under calls that fail: each write, sync, close, rename ... once, with every error.

The job must train on as if nothing were traced. Its folder holds what was intended, to the byte, or
a part of it that no reader takes for the whole, and then the job has said so. No finished step and
no trace of an earlier run is lost, unless nothing can be written any more. `TTRACE_LONG=1` tries
every call with every error, scripts/faults.sh prints the numbers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import failing_io
import pytest
from collector_faults import FAMILIES
from traced_jobs import JOBS

HERE = Path(__file__).parent
ERRORS = ("ENOSPC", "EIO", "SHORT", "FULL")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What came of each job, all run by one process: importing torch takes longer than a job."""
    folder = tmp_path_factory.mktemp("jobs")
    extent = "all" if os.environ.get("TTRACE_LONG") == "1" else "sample"
    command = [sys.executable, "collector_faults.py", folder, ",".join(ERRORS), extent]
    path = {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    environment = {**os.environ, **path, **failing_io.variables(folder / "none")}
    done = subprocess.run(
        command, cwd=HERE, env=environment, capture_output=True, text=True, timeout=7200
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("job", JOBS)
def test_one_call_fails(found, job):
    calls, runs, wrong = (found[job][name] for name in ("calls", "runs", "wrong"))
    print(f"collector, {job}: {calls} calls, {runs} runs with one that fails")
    assert runs >= 10 and not wrong, wrong[:5]


def test_every_family_of_calls_fails_with_every_error(found):
    kinds = {tuple(kind) for job in found.values() for kind in job["kinds"]}
    expected = {(family, error) for family in FAMILIES for error in ERRORS if error != "FULL"}
    assert kinds == {*expected, ("write", "FULL")}
