"""What the rank that closes last does: the manifest of the run, and the list of what it lacks.

Parts that contradict each other leave out the tensors concerned, not the manifest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from ttrace_torch.base.names import ROOT, matching
from ttrace_torch.base.process import say
from ttrace_torch.write.merge import merge_manifests, rank_file, read_parts, save_manifest
from ttrace_torch.write.merge_tensors import Contradiction
from ttrace_torch.write.same_samples import same_samples

# Number of problems that are printed; the manifest has all.
_MOST_SHOWN = 8


def close_run(folder: Path, earlier_ids: Collection[str] = ()) -> Mapping[str, Any] | None:
    """Writes the manifest of a run whose files are all closed, and lists what is incomplete.
    Returns it if this rank was the first to do so.

    earlier_ids: those of the run that stood here before. Where a file still has one, its rank has
        not begun, and will write the manifest itself.
    Throws OSError, and TraceError if the files are not of one run.
    """
    parts = read_parts(folder)
    if any(run.get("id") in earlier_ids for run in _runs(parts)):
        return None
    contradictions: list[Contradiction] = []
    whole = merge_manifests(parts, contradictions)
    found = [one._asdict() for one in contradictions] + _steps_not_reached(parts)
    if found:
        run = whole.setdefault("run", {})
        entries = [*run.get("incomplete", []), *found]
        run["incomplete"] = sorted(entries, key=lambda one: (one["tensors"], one["reason"]))
    is_first = save_manifest(folder, whole)
    if is_first:
        for pattern in _unmatched(whole):
            say(f"modules: {pattern!r} matches no module on any rank, so nothing of it is recorded")
        list_incomplete([{"incomplete": whole.get("run", {}).get("incomplete", [])}, *_runs(parts)])
        alike = same_samples({rank: folder / rank_file(rank) for rank in parts}, parts)
        if alike is not None:
            say(alike)
    return whole if is_first else None


def list_incomplete(runs: Iterable[Mapping[str, Any]]) -> None:
    """Prints what a run lacks, and the layouts that would mend it.

    runs: the `run` of manifests; the first one's `incomplete` is listed, the layouts of all.
    """
    every = list(runs)
    entries = every[0].get("incomplete", []) if every else []
    if not entries:
        return
    by_reason: dict[str, list[str]] = {}
    for entry in entries:
        by_reason.setdefault(entry["reason"], []).append(entry["tensors"])
    # An entry without a name is of everything that some context recorded.
    named = sum(not entry["tensors"].endswith("/*/*/*/*/*") for entry in entries)
    what = f"{named} tensor(s)" if named == len(entries) else "whole parts of the run"
    if 0 < named < len(entries):
        what += f" and {named} tensor(s)"
    say(f"{what} were left out (run.incomplete in the manifest):")
    for reason, tensors in list(by_reason.items())[:_MOST_SHOWN]:
        more = f" and {len(tensors) - 1} more" if len(tensors) > 1 else ""
        say(f"  {tensors[0]}{more}: {reason}")
    if len(by_reason) > _MOST_SHOWN:
        say(f"  and {len(by_reason) - _MOST_SHOWN} more reasons")
    lines = dict.fromkeys(line for run in every for line in run.get("extra", {}).get("layouts", []))
    if lines:
        say("these layouts record them; check the placements, which are guesses:")
        for line in ["layouts=[", *(f"    {line}" for line in lines), "]"]:
            say(line)


def _unmatched(whole: Mapping[str, Any]) -> list[str]:
    """The globs for modules to record that matched no module on any rank. A single stage of a
    pipeline cannot know that."""
    recorded = whole.get("run", {}).get("recorded", {})
    if not recorded.get("steps") or "modules" not in recorded:
        return []
    names = {ROOT, *(entry["name"] for entry in whole.get("modules", []))}
    for entry in whole["tensors"]:
        name = entry["name"].split("[")[0]
        # A parameter is of the module before its last dot.
        names.update((name, name.rpartition(".")[0]))
    return [one for one in recorded["modules"] if not matching(one, names)]


def _runs(parts: Mapping[int, Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [parts[rank].get("run", {}) for rank in sorted(parts)]


def _steps_not_reached(parts: Mapping[int, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Entries of `run.incomplete` for steps that some ranks recorded and others did not."""
    recorded = {
        rank: part["run"]["recorded"]
        for rank, part in parts.items()
        if part.get("run", {}).get("recorded", {}).get("kinds")
    }
    found = []
    for step in sorted({step for one in recorded.values() for step in one["steps"]}):
        lacking = sorted(rank for rank, one in recorded.items() if step not in one["steps"])
        if lacking:
            reason = f"rank(s) {lacking} did not record step {step}, which others did"
            found.append({"tensors": f"{step}/*", "ranks": lacking, "reason": reason})
    return found
