"""Commands under reads that fail: each read of a comparison once, with EIO.

The error says that a read failed. HDF5 itself says "no such name" where it cannot read the names.
`TTRACE_LONG=1` tries every read, scripts/faults.sh prints the numbers.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import failing_io
from support.ttrace_cli import TESTDATA, ttrace_binary

SAMPLE = 60
# What an error says of a damaged trace. This trace is whole.
WRONG = ("there is no such dataset", "not a readable HDF5 file", "not a dataset", "is damaged")


def compared(folder: Path, settings: dict[str, str]) -> tuple[int, str, Any]:
    """Exit code, all that was said, and the report; null if there is none."""
    report = folder.parent / "report.json"
    report.unlink(missing_ok=True)
    command = [ttrace_binary(), "compare", folder / "ref.h5", folder / "run", "--threads", "1"]
    done = subprocess.run(
        [*command, "--json", report],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=120,
    )
    made = json.loads(report.read_text()) if report.exists() else None
    if made is not None:
        made.pop("environment")
    said = done.stdout + done.stderr + json.dumps(made)
    return done.returncode, said, made


def differs(report: dict[str, Any], intended: dict[str, Any]) -> bool:
    """Whether a report says anything else, but for a trace whose files it could not identify."""
    known = {role: was for role, was in report["identity"].items() if was is not None}
    return {**report, "identity": {**intended["identity"], **known}} != intended


def test_one_read_fails(tmp_path: Path) -> None:
    traces, count = tmp_path / "traces", tmp_path / "count"
    traces.mkdir()
    shutil.copy(TESTDATA / "ref.h5", traces)
    shutil.copytree(TESTDATA / "tp2sp", traces / "run")
    reads = ("read",)
    intended = compared(traces, failing_io.variables(traces, calls=reads, count=count))
    assert intended[0] == 0, intended
    calls = failing_io.counted(count)
    step = 1 if os.environ.get("TTRACE_LONG") == "1" else max(1, len(calls) // SAMPLE)
    told = runs = 0
    wrong = []
    for call in calls[::step]:
        settings = failing_io.variables(traces, at=call.number, error="EIO", calls=reads)
        code, said, report = compared(traces, settings)
        runs += 1
        told += "Input/output error" in said
        if any(text in said for text in WRONG):
            wrong.append((call, [text for text in WRONG if text in said], said[:500]))
        # What is read once more may be right.
        elif code == 0 and differs(report, intended[2]):
            wrong.append((call, "another report", said[:500]))
        elif code != 0 and "Input/output error" not in said:
            wrong.append((call, f"exit code {code} without the reason", said[:500]))
    print(f"compare: {len(calls)} reads, {runs} runs with one that fails: {told} say so")
    assert told and not wrong, wrong[:5]
