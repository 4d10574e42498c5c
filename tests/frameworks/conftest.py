"""What all tests of frameworks share: their environment."""

from __future__ import annotations

import subprocess

import pytest
from megatron_runs import Runs
from support.ttrace_cli import REPOSITORY


@pytest.fixture(scope="session")
def python():
    """The interpreter that has the frameworks; scripts/frameworks_venv.sh makes its environment."""
    done = subprocess.run(
        [REPOSITORY / "scripts" / "frameworks_venv.sh"],
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="session")
def megatron(python, tmp_path_factory):
    return Runs(python, tmp_path_factory.mktemp("megatron"))
