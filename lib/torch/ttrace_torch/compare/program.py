"""Finds the program `ttrace`, and runs it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ttrace_torch.errors import TraceError


class ProgramError(TraceError):
    """The program `ttrace` is not there, cannot be started, or does not end."""


def find_program() -> str | None:
    """The variable TTRACE, else `ttrace` on PATH, else the one beside this Python; None without."""
    given = os.environ.get("TTRACE") or shutil.which("ttrace")
    if given:
        return given
    beside = Path(sys.executable).parent / "ttrace"
    return str(beside) if os.access(beside, os.X_OK) else None


def require_program() -> str:
    """Throws ProgramError without the program."""
    found = find_program()
    if found is None:
        raise ProgramError(
            "the program ttrace is not here: put it on PATH, or set TTRACE to its path"
        )
    return found


def path_argument(path: str | os.PathLike[str]) -> str:
    """A path as an argument, whatever it begins with."""
    given = os.fspath(path)
    return os.path.join(".", given) if given.startswith("-") else given


def run_program(
    arguments: Sequence[str], folder: Path | None = None, limit: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs it in a folder, and waits for it. Throws ProgramError.

    limit: seconds after which it is ended.
    """
    program = require_program()
    # The caller shows the output, and knows its width and colours.
    environment = {**os.environ, "COLUMNS": "100000", "NO_COLOR": "1"}
    try:
        return subprocess.run(
            [os.path.abspath(program) if os.sep in program else program, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=limit,
            cwd=folder,
            env=environment,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise ProgramError(f"{program} {arguments[0]}: {error}") from error


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    """The last line of its output: the reason, if it failed."""
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    if lines:
        return lines[-1]
    ended = f"signal {-done.returncode}" if done.returncode < 0 else f"code {done.returncode}"
    return f"ended by {ended}, and said nothing"
