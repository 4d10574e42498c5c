"""Where a run is recorded: the commit of its script's repository, and the host."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

_LIMIT = 5.0


def origin() -> dict[str, str]:
    """What is known of `commit` and `host`."""
    found = {"commit": _commit(), "host": platform.node()}
    return {name: value for name, value in found.items() if value}


def _commit() -> str:
    """The commit of the repository that the script lies in; "" without a repository, without git,
    or if the folder must not be read."""
    try:
        script = Path(*sys.argv[:1]).resolve()
        folder = script if script.is_dir() else script.parent
        asked = ["git", "-C", str(folder), "rev-parse", "HEAD"]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=_LIMIT)
    except (OSError, ValueError, RuntimeError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
