"""Metadata of the wheel: its version, and which `ttrace` it installs.

A build from a checkout has a version of its own, such as 0.1.0+412.g1a2b3c4: how many commits, and
which is the last. pip would keep an installed wheel of the same version. A commit that is tagged
v0.1.0 is the release.

A wheel with the program has it as a file in bin/, which starts without Python. The collector alone
(TTRACE_WITHOUT_CLI) has an entry point of Python instead, which says what was left out.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["dynamic_metadata", "local_version"]

_HERE = Path(__file__).resolve().parent
# In an sdist: what local_version() said where it was made.
SAID = "local_version.txt"


def release() -> str:
    """The version that the collector says."""
    text = (_HERE.parent / "ttrace_torch" / "version.py").read_text(encoding="utf-8")
    found = re.search('__version__ = "([^"]+)"', text)
    assert found is not None
    return found[1]


def local_version() -> str:
    """ "+412.g1a2b3c4", or "" for a release and where no commit is known."""
    said = _HERE / SAID
    if said.exists():
        return said.read_text(encoding="utf-8").strip()
    root = _HERE.parents[2]
    if not (root / ".git").exists():
        return ""
    count, commit = (
        _git(root, *ask) for ask in (["rev-list", "--count"], ["rev-parse", "--short"])
    )
    tagged = f"v{release()}" in _git(root, "tag", "--points-at").split()
    return "" if tagged or not count or not commit else f"+{count}.g{commit}"


def _git(root: Path, *ask: str) -> str:
    """What git says of the last commit; "" where it says nothing."""
    try:
        command = ["git", "-C", str(root), *ask, "HEAD"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def without_program() -> bool:
    """Reads the variable as `if.env` of pyproject.toml reads it."""
    value = os.environ.get("TTRACE_WITHOUT_CLI", "").lower()
    if value.isdigit():
        return int(value) != 0
    return value not in {"", "n", "no", "off", "false", "f"}


def dynamic_metadata(settings: Mapping[str, Any], project: Mapping[str, Any]) -> dict[str, Any]:
    scripts = {"ttrace": "ttrace_command:main"} if without_program() else {}
    return {"scripts": scripts, "version": release() + local_version()}
