"""Judges the trace of a layout with the program `ttrace`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttrace_torch.compare.program import (
    ProgramError,
    last_line,
    require_program,
    run_program,
)
from ttrace_torch.matrix.errors import MatrixError

# Exit codes of the program.
FINE, WRONG, UNUSABLE, INCONCLUSIVE = 0, 1, 2, 3
_LIMIT = 3600.0


@dataclass(frozen=True)
class Verdict:
    """What one command said of a trace.

    word: "match", "diverged", "holds", "broken", ...
    used: the largest share of an allowed error that was used; None where nothing was compared.
    closest: the tensor that used it.
    """

    command: str
    code: int
    word: str
    headline: str
    used: float | None = None
    closest: str = ""


def program() -> str:
    """Throws MatrixError without the program."""
    try:
        return require_program()
    except ProgramError as error:
        raise MatrixError(str(error)) from error


def calibrate(reference: Path, noise: Sequence[Path]) -> None:
    """Writes what the noise runs say beside the reference, as tolerance.json."""
    output = reference.with_name("tolerance.json")
    done = _run("calibrate", str(reference), *map(str, noise), "-o", str(output))
    if done.returncode:
        raise MatrixError(f"the noise runs cannot be used: {last_line(done)}")


def compare(
    reference: Path,
    run: Path,
    folder: Path,
    tolerance: Path | None = None,
    noise: Sequence[Path] = (),
    skip: Sequence[str] = (),
) -> Verdict:
    """Compares a layout with the reference. The reports go to `folder`.

    tolerance: what `calibrate` made of noise runs. noise: these themselves.
    skip: names of activations of modules that the layout takes apart.
    """
    given = [str(reference), str(run)]
    given += [] if tolerance is None else ["--tolerance", str(tolerance)]
    given += ["--noise", *map(str, noise)] if noise else []
    for name in skip:
        given += ["--skip", name]
    code, report = _reported("compare", given, folder)
    if report is None:
        return Verdict("compare", UNUSABLE, "unusable", code)
    closest = report.get("closest") or {}
    return Verdict(
        "compare",
        report["exit_code"],
        report["verdict"],
        report["headline"],
        closest.get("used"),
        closest.get("id", ""),
    )


def audit(run: Path, specification: Path | None, folder: Path) -> Verdict:
    """Holds a layout against its own numbers. The reports go to `folder`."""
    given = [str(run)]
    if specification is not None:
        given += ["--specification", str(specification)]
    code, report = _reported("audit", given, folder)
    if report is None:
        return Verdict("audit", UNUSABLE, "unusable", code)
    return Verdict("audit", report["exit_code"], report["verdict"], report["headline"])


def _reported(
    command: str, given: Sequence[str], folder: Path
) -> tuple[str, dict[str, Any] | None]:
    """Runs a command. Returns "" and its report in JSON, or the reason why there is no report and
    None."""
    report = folder / f"{command}.json"
    files = ["--json", str(report), "--html", str(folder / f"{command}.html")]
    done = _run(command, *given, *files)
    (folder / f"{command}.txt").write_text(done.stdout + done.stderr, encoding="utf-8")
    if done.returncode in (FINE, WRONG, INCONCLUSIVE):
        try:
            return "", json.loads(report.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            return f"ttrace {command}: its report cannot be read: {error}", None
    return last_line(done), None


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Throws MatrixError if the program cannot be started, or does not end."""
    try:
        return run_program(arguments, limit=_LIMIT)
    except ProgramError as error:
        raise MatrixError(str(error)) from error
