from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from subprocess import CompletedProcess

import pytest
from support.ttrace_cli import run_ttrace, ttrace_binary

Run = Callable[..., CompletedProcess[str]]


@pytest.fixture(scope="session")
def ttrace() -> Run:
    ttrace_binary()  # fails at once, with the reason, where nothing is built
    return run_ttrace


@pytest.fixture(autouse=True)
def hangup_ends_a_process() -> Iterator[None]:
    """Under nohup, the commands that a test starts would inherit that SIGHUP is ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
