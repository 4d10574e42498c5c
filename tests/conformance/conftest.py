from __future__ import annotations

from collections.abc import Callable
from subprocess import CompletedProcess

import pytest
from support.ttrace_cli import run_ttrace, ttrace_binary

Run = Callable[..., CompletedProcess[str]]


@pytest.fixture(scope="session")
def ttrace() -> Run:
    ttrace_binary()  # fails at once, with the reason, where nothing is built
    return run_ttrace
