"""The bugs that were found in released packages: each script fails once its bug is mended."""

from __future__ import annotations

import os
import subprocess

import pytest
from support.ttrace_cli import REPOSITORY

FOUND = sorted((REPOSITORY / "tests" / "frameworks" / "found").glob("*.py"))


@pytest.mark.parametrize("script", FOUND, ids=lambda path: path.stem)
def test_the_bug_is_still_there(python, script):
    done = subprocess.run(
        [python, script],
        capture_output=True,
        text=True,
        timeout=900,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    table = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert f"tests/frameworks/found/{script.name}" in table
