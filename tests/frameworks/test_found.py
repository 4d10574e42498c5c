"""The bugs that were found in released packages: each script fails once its bug is mended."""

from __future__ import annotations

import pytest
from support.python_runs import run_python
from support.ttrace_cli import REPOSITORY

FOUND = sorted((REPOSITORY / "tests" / "frameworks" / "found").glob("*.py"))


@pytest.mark.parametrize("script", FOUND, ids=lambda path: path.stem)
def test_the_bug_is_still_there(python, script):
    done = run_python([script], python=python, timeout=900, environment={"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    table = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert f"tests/frameworks/found/{script.name}" in table
