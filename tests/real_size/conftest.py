"""Lets the studies find the launchers of tests/frameworks, and the interpreter of these."""

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
sys.path.append(str(TESTS / "frameworks"))


@pytest.fixture(scope="session")
def python() -> str:
    """The interpreter that has the frameworks; scripts/frameworks_venv.sh makes its environment."""
    script = TESTS.parent / "scripts" / "frameworks_venv.sh"
    done = subprocess.run([script], capture_output=True, text=True, timeout=1800, check=True)
    return done.stdout.strip()
