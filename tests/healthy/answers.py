"""What `ttrace` answers about a job of these tests."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from support.reports import check_report, findings
from support.ttrace_cli import run_ttrace


@dataclass(frozen=True)
class Answer:
    """The exit code, the first line, and the findings as "kind name", the first one first.

    judged, tensors: of `audit`: how many tensors were judged, and how many there are to judge.
    """

    code: int
    line: str
    found: list[str]
    judged: int = 0
    tensors: int = 0


def audited(folder: Path, run: str = "run.h5", specification: str = "specification.json") -> Answer:
    """The answer of `ttrace audit` about `run`; both files are in `folder`."""
    done, report = _asked(folder, "audit", folder / run, "--specification", folder / specification)
    coverage = report["coverage"]
    found = [_named(finding["id"]) for finding in report["findings"]]
    return Answer(
        done.returncode, done.stdout.splitlines()[0], found, coverage["judged"], coverage["tensors"]
    )


def compared(
    folder: Path, run: str = "run.h5", reference: str = "reference.h5", noise: tuple[str, ...] = ()
) -> Answer:
    """The answer of `ttrace compare` about `run` and `reference`, with noise runs; all of them are
    in `folder`."""
    runs = [argument for name in noise for argument in ("--noise", folder / name)]
    done, report = _asked(folder, "compare", folder / reference, folder / run, *runs)
    found = [_named(finding["id"]) for finding in findings(report)]
    return Answer(done.returncode, done.stdout.splitlines()[0], found)


def _asked(folder: Path, *arguments):
    path = folder / "report.json"
    path.unlink(missing_ok=True)
    done = run_ttrace(*arguments, "--json", path)
    assert path.exists(), done.stderr
    report = json.loads(path.read_text(encoding="utf-8"))
    check_report(report)
    return done, report


def _named(id: str) -> str:
    parts = id.split("/")
    return f"{parts[2]} {parts[3]}" if len(parts) > 3 else id
