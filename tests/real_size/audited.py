"""What `ttrace audit` says of a run of the study, with the specification of its reference run."""

from __future__ import annotations

import json
import time
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from power.comparing import label
from power.store import Record
from support.text_report import answer
from support.ttrace_cli import UNUSABLE, run_ttrace

TIMEOUT = 1800


def audited(run: Path, specification: Path, patterns: tuple[str, ...], file: Path) -> Record:
    """The audit in short; its whole text and JSON stay in `file` and beside it.

    patterns: globs over "kind name" of what is wrong first.
    """
    begun = time.monotonic()
    flags = ("--specification", specification, "--json", file)
    done = run_ttrace("audit", run, *flags, timeout=TIMEOUT)
    seconds = time.monotonic() - begun
    file.with_suffix(".txt").write_text(done.stdout + done.stderr, encoding="utf-8")
    if done.returncode == UNUSABLE or not file.exists():
        raise RuntimeError(done.stderr or done.stdout)
    report = json.loads(file.read_text(encoding="utf-8"))
    by_id = {result["id"]: result["key"] for result in report["results"]}
    keys = [by_id[finding["members"][0]] for finding in report["findings"]]
    return {
        "exit_code": done.returncode,
        "answer": answer(done.stdout),
        "seconds": seconds,
        "judged": report["coverage"]["judged"],
        "tensors": report["coverage"]["tensors"],
        "not_judged": report["coverage"]["not_judged"],
        "worst": worst(report),
        "findings": len(keys),
        "found": sorted({_pattern_of(key, patterns) for key in keys} - {""}),
        "rows": [rows for finding in report["findings"] for rows in _rows(finding)][:3],
        "first": [label(key) for key in keys[:1]],
        "as_expected": any(_is_one(key, patterns) for key in keys[:1]),
        "elsewhere": [label(key) for key in keys if not _is_one(key, patterns)],
    }


def worst(report: dict[str, Any]) -> Record | None:
    """What holds and used most of its bound."""
    checks = [
        {"share": check["error"] / check["bound"], "where": label(result["key"])}
        for result in report["results"]
        for check in result.get("checks", ())
        if check["result"] == "consistent" and check.get("bound") and result["outcome"] == "holds"
    ]
    return max(checks, key=lambda one: one["share"]) if checks else None


def _rows(finding: dict[str, Any]) -> list[str]:
    return [check["rows"] for check in finding["checks"] if check.get("rows")]


def _pattern_of(key: dict[str, Any], patterns: tuple[str, ...]) -> str:
    return next((pattern for pattern in patterns if _is_one(key, (pattern,))), "")


def _is_one(key: dict[str, Any], patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(f"{key['kind']} {key['name']}", pattern) for pattern in patterns)
