"""One comparison, and the numbers of it that the study keeps."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from support.reports import read_report
from support.text_report import answer
from support.ttrace_cli import UNUSABLE, run_ttrace

Report = dict[str, Any]
Result = dict[str, Any]
Key = tuple[Any, ...]
TIMEOUT = 900
UNCHECKED = {"below_noise_floor", "not_judged"}
GOOD = {"match", "skipped_by_rule", *UNCHECKED}
# Bins of the histograms of error over noise and error over limit: so many to a factor of ten.
BINS = 10


class UnusableError(RuntimeError):
    """`ttrace` could not compare the traces at all."""


def compare(reference: Path, run: Path, noise: Sequence[Path], scratch: Path) -> Report:
    """The JSON report, with the text's first line as `answer`."""
    file = scratch / "report.json"
    flags = [flag for one in noise for flag in ("--noise", one)]
    done = run_ttrace(
        "compare", reference, run, *flags, "--all-slices", "--json", file, timeout=TIMEOUT
    )
    if done.returncode == UNUSABLE or not file.exists():
        raise UnusableError(done.stderr or done.stdout)
    report = read_report(file)
    file.unlink()
    assert report["exit_code"] == done.returncode
    return {**report, "answer": answer(done.stdout)}


def key_of(entry: dict[str, Any]) -> Key:
    """Identity of a tensor, from a report's key, a manifest's entry or a tolerance file's."""
    mb = entry.get("microbatch")
    name = (entry["step"], mb, entry["kind"], entry["name"], entry.get("call", 0))
    return (*name, entry.get("copy", 0))


def label(key: dict[str, Any]) -> str:
    parts = [key["name"], key["kind"], f"step {key['step']}"]
    if key.get("microbatch") is not None:
        parts.append(f"mb {key['microbatch']}")
    return " · ".join(parts)


def summary(report: Report) -> dict[str, Any]:
    """Counts, everything that is beyond its tolerance, and what came closest to it."""
    results = report["results"]
    beyond = [result for result in results if result["outcome"] not in GOOD]
    return {
        "exit_code": report["exit_code"],
        "answer": report["answer"],
        "tensors": len(results),
        "kinds": Counter(result["key"]["kind"] for result in results),
        "rules": Counter(result.get("rule", "none") for result in results),
        "unchecked": sum(result["outcome"] in UNCHECKED for result in results),
        "tensors_beyond": len(beyond),
        "slices_beyond": sum(result.get("slices_beyond", 0) for result in results),
        "beyond": [_facts(result) for result in beyond],
        "worst": worst(results),
    }


def worst(results: Sequence[Result]) -> dict[str, dict[str, Any]]:
    """By what was judged (tensor, shard, block, element, replayed value): the largest share of its
    limit, and where. Of a tensor's parts only the one closest to its limit is known, and where
    parts are beyond theirs none but those of the first findings."""
    found: dict[str, dict[str, Any]] = {}
    for result in results:
        for what, share, place in shares(result):
            if what not in found or share > found[what]["share"]:
                found[what] = {"share": share, "where": place}
    return found


def shares(result: Result) -> Iterator[tuple[str, float, str]]:
    """What of a result was held against a limit, its share of it, and its place."""
    where = label(result["key"])
    if result.get("rule") == "replay":
        of_norm = result["key"]["kind"] == "grad_norm"
        what = "replayed gradient norm" if of_norm else "replayed update"
        yield what, number(result["passing_multiplier"]), where
        return
    if result.get("rule") in (None, "exact") or result.get("allowed_norm") is None:
        return
    yield "tensor", _share(result["difference_norm"], result["allowed_norm"]), where
    part = result.get("closest_slice") or next(iter(result.get("slices", [])), None)
    if part and part["allowed"] is not None:
        place = f"{where}, at {part['origin']} of extent {part['extent']}"
        yield part["what"], _share(part["error"], part["allowed"]), place


def over_limit(results: Sequence[Result]) -> dict[str, int]:
    """Histogram of the tensors' share of their limit, replays apart; by the bins' numbers."""
    return _histogram(
        share for result in results for what, share, _ in shares(result) if what == "tensor"
    )


def over_noise(results: Sequence[Result], noise: dict[Key, float]) -> dict[str, int]:
    """Histogram of ‖C − R‖ over the noise, where that is known and not 0."""
    return _histogram(
        number(result["difference_norm"]) / noise[key_of(result["key"])]
        for result in results
        if result.get("difference_norm") is not None
        and result.get("rule") != "replay"
        and noise.get(key_of(result["key"]), 0) > 0
    )


def number(value: Any) -> float:
    """A number of a report, where those that are not finite are words."""
    return float(value)


def _share(found: Any, allowed: Any) -> float:
    found, allowed = number(found), number(allowed)
    if allowed == 0:
        return 0.0 if found == 0 else math.inf
    return found / allowed


def _histogram(values: Iterator[float]) -> dict[str, int]:
    bins = Counter(
        "zero" if value == 0 else str(math.floor(BINS * math.log10(value)))
        for value in values
        if math.isfinite(value)
    )
    return dict(bins)


def _facts(result: Result) -> dict[str, Any]:
    wanted = ("outcome", "shape", "dtype", "error", "allowed", "rule", "formula", "reason")
    facts = {name: result[name] for name in wanted if name in result}
    parts = result.get("slices", [])[:3]
    return {"where": label(result["key"]), **facts, "slices": parts}
