"""Runs `ttrace audit` on a recorded step."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from support.ttrace_cli import run_ttrace


def audited(
    run: Path, specification: Path
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """What the command printed, and its report, which lies beside the run."""
    report = run.parent / "report.json"
    done = run_ttrace("audit", run, "--specification", specification, "--json", report)
    return done, json.loads(report.read_text(encoding="utf-8"))
