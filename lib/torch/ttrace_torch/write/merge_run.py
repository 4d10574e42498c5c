"""What the ranks were told to record, and the facts of the run made of theirs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Requested:
    """What every rank was told to record, by its part of the manifest."""

    def __init__(self, parts: Mapping[int, Mapping[str, Any]]) -> None:
        runs = {rank: part.get("run", {}) for rank, part in parts.items()}
        self._recorded = {r: run["recorded"] for r, run in runs.items() if "recorded" in run}
        self._unfinished = {rank for run in runs.values() for rank in run.get("unfinished", [])}

    def knows(self, rank: int) -> bool:
        """Whether the rank says what it was told; version 1 does not."""
        return rank in self._recorded

    def asked(self, rank: int, entry: Mapping[str, Any]) -> bool:
        """Whether the rank was to have its part of that tensor, ran the step to its end and closed
        its trace. Which rows a rank has stands in the index alone, and it may have none."""
        told = self._recorded.get(rank)
        if told is None or rank in self._unfinished or _goes_by_rows(entry):
            return False
        return entry["kind"] in told["kinds"] and entry["step"] in told["steps"]


def merge_runs(parts: Mapping[int, Mapping[str, Any]]) -> dict[str, Any] | None:
    """The manifest's `run`: that of the lowest rank, and what all ranks were told to record.

    `recorded` has the kinds and the finished steps of all ranks that record, and the modules of
    any. None where the lowest rank says nothing.
    """
    ranks = sorted(parts)
    if "run" not in parts[ranks[0]]:
        return None
    runs = [parts[rank].get("run", {}) for rank in ranks]
    whole = {k: v for k, v in runs[0].items() if k not in ("recorded", "unfinished")}
    told = [run["recorded"] for run in runs if "recorded" in run]
    if len(told) == len(runs):
        whole["recorded"] = _merge_recorded(told)
    unfinished = {rank for run in runs for rank in run.get("unfinished", [])}
    if unfinished:
        whole["unfinished"] = sorted(unfinished)
    return whole


def _merge_recorded(told: list[dict[str, Any]]) -> dict[str, Any]:
    # A rank that was told to record nothing takes nothing from the others.
    recording = [one for one in told if one["kinds"]] or told
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
    words = entry.get("placements", {}).values()
    by_rows = any(isinstance(word, dict) and "rows" in word for word in words)
    return by_rows or bool(entry["kind"] == "index")
