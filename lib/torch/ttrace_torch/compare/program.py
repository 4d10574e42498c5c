"""Finds the program `ttrace`."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path


def find_program() -> str | None:
    """The variable TTRACE, else `ttrace` on PATH, else the one beside this Python; None without."""
    given = os.environ.get("TTRACE") or shutil.which("ttrace")
    if given:
        return given
    beside = Path(sys.executable).parent / "ttrace"
    return str(beside) if os.access(beside, os.X_OK) else None
