"""The studies start: the environment of the frameworks has what they import."""

from __future__ import annotations

import os
import subprocess

import pytest
from support.ttrace_cli import REPOSITORY

FOLDERS = ["lib/torch", "tests", "tests/frameworks"]


@pytest.mark.parametrize("study", ["real_size.study", "real_size.lies", "hunt.hunt"])
def test_a_study_starts(python, study):
    path = os.pathsep.join(str(REPOSITORY / folder) for folder in FOLDERS)
    done = subprocess.run(
        [python, "-m", study, "--help"],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage")
