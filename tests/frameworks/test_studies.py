"""The studies start: the environment of the frameworks has what they import."""

from __future__ import annotations

import os

import pytest
from support.python_runs import run_python
from support.ttrace_cli import REPOSITORY

FOLDERS = ["lib/torch", "tests", "tests/frameworks"]


@pytest.mark.parametrize(
    "study", ["real_size.study", "real_size.lies", "hunt.hunt", "releases.study"]
)
def test_a_study_starts(python, study):
    path = os.pathsep.join(str(REPOSITORY / folder) for folder in FOLDERS)
    done = run_python(
        ["-m", study, "--help"], python=python, timeout=300, environment={"PYTHONPATH": path}
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage")
