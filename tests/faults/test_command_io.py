"""Commands under calls that fail: each open, write, sync, close, rename ... once, with each error.

No command ends as if nothing had happened and leaves other bytes than intended. `TTRACE_LONG=1`
tries every call with every error, scripts/faults.sh prints the numbers.
"""

from __future__ import annotations

import os
from itertools import cycle
from pathlib import Path

import failing_io
import pytest
from writing_commands import COMMANDS, left_by, what_is_wrong

LONG = os.environ.get("TTRACE_LONG") == "1"
ERRORS = ("ENOSPC", "EIO", "SHORT")
# How many calls of a command fail in the sample, one at a time.
SAMPLE = 12


def chosen(calls: list[failing_io.Call]) -> list[tuple[failing_io.Call, str]]:
    """Which calls fail, and with what."""
    if LONG:
        return [(call, error) for error in ERRORS for call in calls]
    step = max(1, len(calls) // SAMPLE)
    # From the end, where outputs are put in place.
    return list(zip(calls[::-1][::step], cycle(ERRORS), strict=False))


@pytest.mark.parametrize("name", COMMANDS)
def test_one_call_fails(name: str, tmp_path: Path) -> None:
    inputs, count = tmp_path / "inputs", tmp_path / "count"
    inputs.mkdir()
    COMMANDS[name].inputs(inputs)
    out = tmp_path / "out"
    intended = left_by(name, inputs, out, failing_io.variables(out, count=count))
    calls = failing_io.counted(count)
    assert calls, intended
    runs = told = 0
    wrong = []
    for call, error in chosen(calls):
        out.rename(tmp_path / f"before_{runs}")
        settings = failing_io.variables(out, at=call.number, error=error)
        found = left_by(name, inputs, out, settings)
        why = what_is_wrong(intended, found)
        if why:
            wrong.append((error, call.number, call.call, Path(call.path).name, why, found.said))
        runs += 1
        told += found.exit_code != intended.exit_code
    print(f"{name}: {len(calls)} calls, {runs} runs with one that fails: {told} end otherwise")
    assert not wrong, wrong[:5]
