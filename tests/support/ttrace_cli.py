"""Runs the built command line tool, as a user would."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
TESTDATA = REPOSITORY / "testdata" / "tiny_gpt"

ANSWERING = ("compare", "localize", "audit")

MATCH, DIVERGED, UNUSABLE, INCONCLUSIVE = 0, 1, 2, 3


def ttrace_binary() -> Path:
    """The tool under test: $TTRACE, or what `scripts/test.sh` builds."""
    path = Path(os.environ.get("TTRACE") or REPOSITORY / "build" / "ttrace").absolute()
    if not os.access(path, os.X_OK):
        raise FileNotFoundError(
            f"{path} is not an executable: build it with scripts/test.sh, or name another in TTRACE"
        )
    return path


def in_full(arguments: Sequence[str | Path]) -> list[str | Path]:
    """The arguments with --all, if the command is one that answers and has it not."""
    given = list(arguments)
    words = [i for i, word in enumerate(given) if not str(word).startswith("-")]
    if not words or "--all" in given:
        return given
    command = words[0]
    if [given[i] for i in words[:2]] == ["report", "merge"]:
        command = words[1]
    elif given[command] not in ANSWERING:
        return given
    return [*given[: command + 1], "--all", *given[command + 1 :]]


def run_ttrace(
    *arguments: str | Path,
    timeout: float = 60,
    environment: dict[str, str] | None = None,
    cwd: Path | None = None,
    screen: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Waits at most `timeout` seconds; bytes that are not UTF-8 come back as U+FFFD. Text is not
    folded, unless `environment` says to how many columns. What answers, answers in full (--all),
    unless `screen` asks for the first screen."""
    return subprocess.run(
        [ttrace_binary(), *(arguments if screen else in_full(arguments))],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=timeout,
        env={**os.environ, "COLUMNS": "100000", **(environment or {})},
        cwd=cwd,
        check=False,
    )
