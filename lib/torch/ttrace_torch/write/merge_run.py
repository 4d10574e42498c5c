"""Merges the manifest's `run`, and answers what each rank was asked to record."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ttrace_torch.errors import TraceError

# The id that a rank draws where the ranks share no store (write/output.py), and that rank.
_DRAWN_ALONE = re.compile(r"[0-9a-f]{32}@([0-9]+)")


class Requested:
    """What every rank was asked to record, from its part of the manifest."""

    def __init__(self, parts: Mapping[int, Mapping[str, Any]]) -> None:
        runs = {rank: part.get("run", {}) for rank, part in parts.items()}
        self._recorded = {r: run["recorded"] for r, run in runs.items() if "recorded" in run}
        self._unfinished = {rank for run in runs.values() for rank in run.get("unfinished", [])}

    def knows(self, rank: int) -> bool:
        """Whether the rank's part says what to record."""
        return rank in self._recorded

    def asked(self, rank: int, entry: Mapping[str, Any]) -> bool:
        """Whether the rank should have recorded its shard of that tensor: it was asked to,
        finished the step and closed its trace. False for a tensor placed by `Rows`, of which a
        rank may have no row."""
        requested = self._recorded.get(rank)
        if requested is None or rank in self._unfinished or _goes_by_rows(entry):
            return False
        return entry["kind"] in requested["kinds"] and entry["step"] in requested["steps"]


def require_one_run(parts: Mapping[int, Mapping[str, Any]]) -> None:
    """Throws TraceError if ranks have files of two runs. Ids that ranks drew alone may differ."""
    ids = {rank: parts[rank].get("run", {}).get("id") for rank in sorted(parts)}
    first = next((one for one in ids.values() if one), None)
    alone = _drawn_by(first) is not None
    strange = [
        rank
        for rank, one in ids.items()
        if one and one != first and not (alone and _drawn_by(one) == str(rank))
    ]
    if strange:
        raise TraceError(
            f"the file(s) of rank(s) {strange} are of another run than those of the other ranks, "
            f"{ids[strange[0]]!r} and not {first!r}; move them away and record again; give every "
            "job a folder of its own, and all its ranks the same out="
        )


def _drawn_by(run_id: Any) -> str | None:
    """The rank that drew the id alone; None if ranks share it."""
    found = _DRAWN_ALONE.fullmatch(str(run_id))
    return None if found is None else found[1]


def merge_runs(parts: Mapping[int, Mapping[str, Any]]) -> dict[str, Any] | None:
    """The manifest's `run`: that of the lowest rank, with what all ranks were asked to record, and
    the precision of the lowest one that has any.

    `updates_before` is the largest of all. `recorded` has the kinds and finished steps common to
    all ranks that record, and the modules of any. Returns None if the lowest rank has no `run`.
    """
    ranks = sorted(parts)
    if "run" not in parts[ranks[0]]:
        return None
    runs = [parts[rank].get("run", {}) for rank in ranks]
    whole = {k: v for k, v in runs[0].items() if k not in ("recorded", "unfinished", "incomplete")}
    requested = [run["recorded"] for run in runs if "recorded" in run]
    if len(requested) == len(runs):
        whole["recorded"] = _merge_recorded(requested)
    precisions = [run["precision"] for run in runs if "precision" in run]
    if precisions:
        whole.setdefault("precision", precisions[0])
    products = [run["products"] for run in runs if "products" in run]
    if products:
        whole.setdefault("products", products[0])
    incomplete = _merge_incomplete(runs)
    if incomplete:
        whole["incomplete"] = incomplete
    counts = [run["updates_before"] for run in runs if "updates_before" in run]
    if counts:
        whole["updates_before"] = max(counts)
    rewritten = _merge_rewritten(runs)
    if rewritten:
        whole["rewritten"] = rewritten
    unfinished = {rank for run in runs for rank in run.get("unfinished", [])}
    if unfinished:
        whole["unfinished"] = sorted(unfinished)
    return whole


def _merge_incomplete(runs: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Entries that differ only in ranks as one, sorted."""
    ranks: dict[tuple[str, str], set[int]] = {}
    for run in runs:
        for entry in run.get("incomplete", []):
            ranks.setdefault((entry["tensors"], entry["reason"]), set()).update(entry["ranks"])
    return [
        {"tensors": tensors, "ranks": sorted(ranks[tensors, reason]), "reason": reason}
        for tensors, reason in sorted(ranks)
    ]


def _merge_rewritten(runs: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The parameters that any rank has changed by hand, by step."""
    names: dict[int, set[str]] = {}
    for run in runs:
        for entry in run.get("rewritten", []):
            names.setdefault(entry["step"], set()).update(entry["params"])
    return [{"step": step, "params": sorted(names[step])} for step in sorted(names)]


def _merge_recorded(requested: list[dict[str, Any]]) -> dict[str, Any]:
    # A rank that was asked to record nothing does not reduce the others' kinds and steps.
    recording = [one for one in requested if one["kinds"]] or requested
    first = recording[0]
    whole: dict[str, Any] = {
        "kinds": [kind for kind in first["kinds"] if all(kind in o["kinds"] for o in recording)]
    }
    if all("modules" in one for one in recording):
        whole["modules"] = list(dict.fromkeys(m for one in recording for m in one["modules"]))
    steps = [step for step in first["steps"] if all(step in one["steps"] for one in recording)]
    whole["steps"] = sorted(steps)
    return whole


def _goes_by_rows(entry: Mapping[str, Any]) -> bool:
    values = entry.get("placements", {}).values()
    by_rows = any(isinstance(value, dict) and "rows" in value for value in values)
    return by_rows or bool(entry["kind"] == "index")
