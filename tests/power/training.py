"""Traces of the study, made by the launchers of tests/frameworks and the one beside this file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import agreement
from support.ttrace_cli import MATCH, run_ttrace

from power.editing import removed
from power.runs import Case, Family, Model

TESTS = Path(__file__).resolve().parents[1]
PATH = (TESTS, TESTS / "frameworks")
LAUNCHED = 8  # cases at a time


def train(family: Family, models: Sequence[Model], out: Path) -> dict[str, str]:
    """Trains the models in all their runs into `out`.

    Returns why, for each case that could not be trained; its trace is not there.
    """
    failed = {}
    for ranks in sorted(set().union(*(model.worlds for model in models))):
        cases: dict[str, Case] = {}
        for model in models:
            cases |= model.cases(ranks)
        while cases:
            # Not all at once: threads of process groups that are no more go on turning.
            names = list(cases)[:LAUNCHED]
            try:
                now = {name: cases[name] for name in names}
                agreement.train(sys.executable, family.launcher, ranks, now, out, PATH)
            except AssertionError as error:
                # It ends the launcher, so those before it are done, and those after it are not.
                culprit = next(name for name in names if not _done(trace_path(out, name)))
                removed(trace_path(out, culprit))
                failed[culprit] = str(error)[-1500:]
                names = names[: names.index(culprit) + 1]
            cases = {name: case for name, case in cases.items() if name not in names}
    return failed


def trace_path(out: Path, name: str) -> Path:
    """Where the trace of that name is: a file of one process, or a folder of many."""
    file = out / f"{name}.h5"
    return file if file.exists() else out / name


def _done(trace: Path) -> bool:
    return trace.exists() and run_ttrace("lint", trace).returncode == MATCH
