"""Reports as pandas DataFrames."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from ttrace_torch.report.optional import needed
from ttrace_torch.report.parts import Finding, Key, Result

if TYPE_CHECKING:
    from pandas import DataFrame

# Columns of integers that a row may lack: numpy has no integer type with missing values, pandas has
# "Int64".
_WHOLE = ("step", "microbatch", "call", "copy", "layer", "elements", "unequal")
_NOT_COLUMNS = {"id", "key", "checks", "json"}


def frame_of_results(results: Iterable[Result]) -> DataFrame:
    """One row per tensor, by id."""
    return _frame([_result_row(one) for one in results], _result_row(None))


def frame_of_findings(findings: Iterable[Finding]) -> DataFrame:
    """One row per finding, by id."""
    return _frame([_finding_row(one) for one in findings], _finding_row(None))


def _frame(rows: Sequence[dict[str, Any]], columns: dict[str, Any]) -> DataFrame:
    pandas = needed("pandas", "frame()")
    frame: DataFrame = pandas.DataFrame(rows, columns=list(columns)).set_index("id")
    return frame.astype({name: "Int64" for name in _WHOLE if name in frame.columns})


# With None, the two functions below give a row of None under the names of all columns.


def _result_row(one: Result | None) -> dict[str, Any]:
    row = {"id": one and one.id}
    row.update({f.name: one and getattr(one.key, f.name) for f in fields(Key) if f.name != "json"})
    for field in fields(Result):
        if field.name not in _NOT_COLUMNS:
            row[field.name] = one and getattr(one, field.name)
    return row


def _finding_row(one: Finding | None) -> dict[str, Any]:
    best = one.cause if one else None
    row = {name: one and getattr(one, name) for name in ("id", "headline", "outcome", "phase")}
    row["cause"] = best and best.name
    row["axis"] = best and best.axis
    row["tensors"] = one and len(one.keys)
    for name in ("module", "class_name", "called_at", "ranks", "here", "downstream", "next"):
        row[name] = one and getattr(one, name)
    return row
