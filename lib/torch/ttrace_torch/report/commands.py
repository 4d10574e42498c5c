"""`ttrace compare`, `audit` and `localize` as functions that return the report."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from ttrace_torch.compare.program import ProgramError, last_line, path_argument, run_program
from ttrace_torch.report.answers import AuditReport, CompareReport, LocalizeReport, Report
from ttrace_torch.report.errors import CommandFailed
from ttrace_torch.report.read import load

_ANSWERED = (0, 1, 3)


def compare(
    reference: str | os.PathLike[str], candidate: str | os.PathLike[str], **flags: Any
) -> CompareReport:
    """Compares a run with its reference.

    flags: those of `ttrace compare`, with underscores: noise=["noise1.h5", "noise2.h5"],
        tolerance="tolerance.json", only="layers.*", step=0, common=True, html="page.html".
        json="report.json" keeps the report in that file.

    Throws CommandFailed with the command's sentence where it cannot be answered (exit code 2).
    """
    return cast(CompareReport, _answer("compare", [reference, candidate], flags))


def audit(run: str | os.PathLike[str], **flags: Any) -> AuditReport:
    """Holds every tensor of a run against what it was computed from; flags as in `compare`, those
    of `ttrace audit`: specification="step.json"."""
    return cast(AuditReport, _answer("audit", [run], flags))


def localize(
    reference: str | os.PathLike[str], candidate: str | os.PathLike[str], **flags: Any
) -> LocalizeReport:
    """Says what follows from its own inputs at each divergence, and what does not; flags as in
    `compare`, those of `ttrace localize`: specification="step.json", report="report.json"."""
    return cast(LocalizeReport, _answer("localize", [reference, candidate], flags))


def _answer(command: str, traces: list[Any], flags: dict[str, Any]) -> Report:
    with tempfile.TemporaryDirectory(prefix="ttrace-report-") as folder:
        file = Path(flags.pop("json", None) or Path(folder, "report.json.gz"))
        if str(file) == "-":
            raise CommandFailed("json='-': a report is read from a file; give one or none")
        given = [*_flags({**flags, "json": file}), *map(path_argument, traces)]
        try:
            done = run_program([command, *given])
        except ProgramError as error:
            raise CommandFailed(str(error)) from error
        if done.returncode not in _ANSWERED:
            raise CommandFailed(last_line(done), done.returncode)
        if not file.exists():
            raise CommandFailed(f"ttrace {command} wrote no report: {last_line(done)}")
        report = load(file)
    if report.exit_code != done.returncode or report.command != command:
        raise CommandFailed(
            f"ttrace {command} ended with {done.returncode}, and {file.name} is the answer of "
            f"{report.command} with {report.exit_code}",
            done.returncode,
        )
    return report


def _flags(flags: dict[str, Any]) -> Iterator[str]:
    """The flags of a command line: True gives the flag alone, a list repeats the flag."""
    for name, value in flags.items():
        word = f"--{name.replace('_', '-')}"
        if value is True:
            yield word
        elif value is not False and value is not None:
            several = isinstance(value, (list, tuple, set, frozenset, range))
            for one in value if several else [value]:
                yield f"{word}={os.fspath(one) if isinstance(one, os.PathLike) else one}"
