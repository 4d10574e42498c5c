"""Reads a report from its file."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

from ttrace_torch.report.answers import AuditReport, CompareReport, LocalizeReport, Report
from ttrace_torch.report.errors import ReportError
from ttrace_torch.report.members import read_object
from ttrace_torch.version import __version__

_KINDS: tuple[type[Report], ...] = (CompareReport, AuditReport, LocalizeReport)
SCHEMA = "ttrace.answer/1"
_GZIP = b"\x1f\x8b"


def load(path: str | Path) -> Report:
    """The report in a file that `--json FILE` or `--json FILE.gz` wrote.

    Throws ReportError: a file that cannot be read, is damaged, or is of another version.
    """
    path = Path(path)
    try:
        if path.exists() and not path.is_file():
            raise ReportError(f"{path}: is no file; give a report that --json FILE wrote")
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ReportError(f"{path}: cannot be read: {reason}") from error
    return parse(data, path)


def parse(data: bytes, path: Path) -> Report:
    """The report in the bytes of a file. Throws ReportError with its path."""
    document = _document(data, path)
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        what = f"its schema is {schema!r}" if isinstance(schema, str) else "it has no schema"
        raise ReportError(
            f"{path}: {what}, and ttrace_torch {__version__} reads {SCHEMA}; install the "
            "ttrace_torch of the program that wrote it, or make it again with --json"
        )
    for kind in _KINDS:
        if document.get("command") == kind.command:
            try:
                found = read_object(kind, document, "")
            except ReportError as error:
                raise ReportError(f"{path}: {error}") from error
            object.__setattr__(found, "name", path.name)
            object.__setattr__(found, "data", data)
            return found
    known = ", ".join(kind.command for kind in _KINDS)
    command = document.get("command")
    raise ReportError(f"{path}: /command: {command!r} is none of {known}")


def _document(data: bytes, path: Path) -> Any:
    try:
        plain = gzip.decompress(data) if data.startswith(_GZIP) else data
        return json.loads(plain.decode("utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError, EOFError, OSError, zlib.error) as error:
        damage = "compressed data" if data.startswith(_GZIP) else "JSON"
        raise ReportError(f"{path}: not valid {damage}, cut off or damaged: {error}") from error


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")
