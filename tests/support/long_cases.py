"""Cases that take long and differ in no kind from quick ones: a script of `scripts` runs them with
all others, by TTRACE_LONG=1. `scripts/test.sh` leaves them out and says so at its end."""

from __future__ import annotations

import os
from typing import TypeVar

LONG = os.environ.get("TTRACE_LONG") == "1"
# The script that runs them -> what they are.
left_out: dict[str, list[str]] = {}

Cases = TypeVar("Cases", list, dict)  # type: ignore[type-arg]


def chosen(what: str, quick: Cases, long: Cases, script: str = "scripts/long_cases.sh") -> Cases:
    """The cases to run, lists or dictionaries; those that are not are counted under `what`."""
    if not LONG:
        left_out.setdefault(script, []).append(f"{len(long)} of {what}")
        return quick
    return {**quick, **long} if isinstance(quick, dict) else [*quick, *long]


def told() -> list[str]:
    """A line for each script that was left cases."""
    return [
        f"left to {script}: long cases, {', '.join(cases)}" for script, cases in left_out.items()
    ]
