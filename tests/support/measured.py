"""Runs the command and measures it: seconds, and the largest resident size of its processes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from support.ttrace_cli import ttrace_binary

# By a small process of its own: what a process was before it became the program counts too, and
# pytest is large.
_MEASURE = """
import json, resource, subprocess, sys
try:
    done = subprocess.run(sys.argv[2:], capture_output=True, timeout=float(sys.argv[1]))
    code, out, err = done.returncode, done.stdout, done.stderr
except subprocess.TimeoutExpired as ended:
    code, out, err = None, ended.stdout or b"", ended.stderr or b""
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
print(json.dumps([code, peak, out.decode(errors="replace"), err.decode(errors="replace")]))
"""


@dataclass(frozen=True)
class Measured:
    """exit_code: None if it was ended because it took too long. peak: in bytes."""

    exit_code: int | None
    seconds: float
    peak: int
    output: str
    errors: str


def run_measured(*arguments: str | Path, timeout: float = 300) -> Measured:
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-S", "-c", _MEASURE, str(timeout), ttrace_binary(), *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout + 60,
        check=True,
    )
    seconds = time.monotonic() - begin
    code, peak, output, errors = json.loads(done.stdout)
    return Measured(code, seconds, peak, output, errors)
