"""Metadata of the wheel: which `ttrace` it installs.

A wheel with the program has it as a file in bin/, which starts without Python. The collector alone
(TTRACE_WITHOUT_CLI) has an entry point of Python instead, which says what was left out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

__all__ = ["dynamic_metadata"]


def without_program() -> bool:
    """Reads the variable as `if.env` of pyproject.toml reads it."""
    value = os.environ.get("TTRACE_WITHOUT_CLI", "").lower()
    if value.isdigit():
        return int(value) != 0
    return value not in {"", "n", "no", "off", "false", "f"}


def dynamic_metadata(settings: Mapping[str, Any], project: Mapping[str, Any]) -> dict[str, Any]:
    return {"scripts": {"ttrace": "ttrace_command:main"} if without_program() else {}}
