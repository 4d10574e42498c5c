"""Where a run is recorded: the commit of its script's repository, and the host."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

_LIMIT = 5.0


def origin() -> dict[str, str]:
    """What is known of `commit` and `host`."""
    found = {"commit": _commit(Path(*sys.argv[:1]).resolve()), "host": platform.node()}
    return {name: value for name, value in found.items() if value}


def _commit(script: Path) -> str:
    """Of the repository that a script lies in; "" without one, or without git."""
    folder = script if script.is_dir() else script.parent
    asked = ["git", "-C", str(folder), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=_LIMIT)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
