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


# A job that nohup or a shell's `&` has started inherits that some signals are ignored.
SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)


@pytest.fixture(autouse=True)
def signals_end_a_process() -> Iterator[None]:
    """Lets the commands that a test starts have the default handlers of signals."""
    ignored = [number for number in SIGNALS if signal.getsignal(number) == signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)
