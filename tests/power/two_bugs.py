"""Pairs of bugs of the gallery in one run: how often is the second one named too?

A bug is named if a finding, or a second suspect, is one of the tensors that it makes wrong first.
"""

from __future__ import annotations

import dataclasses
import random
import sys
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import combinations
from typing import Any

from gallery.bugs import BUGS
from gallery.config import Config, ConfigError
from gallery.expected import EXPECTED
from support.reports import by_id, findings
from support.ttrace_cli import REPOSITORY

from power.gallery_runs import Runs
from power.tables import table

TABLE = REPOSITORY / "tests" / "power" / "TWO_BUGS.md"
COUNT = 40
SEED = 30
MOST_RANKS = 4
# Options of two runs that are not the same: the larger one has room for both bugs.
SIZES = ("layers", "microbatches", "steps", "top_k")

# What leaves nothing to tell of another bug.
MASKING = {
    "P7": "its NaN reach everything",
    "P10": "the model is another one",
    "G11": "all layers after the first have another input",
    "G14": "its loss scale leaves gradients of 0 to the first step",
}
Pair = tuple[str, str, Config]


def together(first: str, second: str) -> Config | None:
    """A run in which both bugs show; None if there is none."""
    options: dict[str, Any] = {}
    one, other = EXPECTED[first].config, EXPECTED[second].config
    for field in dataclasses.fields(Config):
        values = {getattr(one, field.name), getattr(other, field.name)}
        if len(values) > 1:
            values.discard(field.default)
        if len(values) > 1 and field.name not in SIZES:
            return None
        options[field.name] = max(values)
    try:
        config = Config(**options)
    except ConfigError:
        return None
    if "G16" in (first, second):  # a part of a weight is as large as a bucket
        config = dataclasses.replace(config, ffn_hidden=config.ffn_hidden * config.tp)
    needs = BUGS[first].needs | BUGS[second].needs
    return config if needs <= config.features and config.ranks <= MOST_RANKS else None


def mask(first: str, second: str) -> str:
    """Why one of the bugs cannot be told from the other; nothing if both can be."""
    for bug in (first, second):
        if bug in MASKING:
            return f"{bug}: {MASKING[bug]}"
    one, other = EXPECTED[first], EXPECTED[second]
    kinds = {one.kind, *one.also} & {other.kind, *other.also}
    if kinds and any(
        fnmatchcase(a, b) or fnmatchcase(b, a) for a in one.names for b in other.names
    ):
        return "both make the same tensors wrong first"
    return ""


def possible_pairs() -> Iterator[Pair]:
    for first, second in combinations(EXPECTED, 2):
        config = together(first, second)
        if config is not None:
            yield first, second, config


def pairs() -> list[Pair]:
    """The pairs of the study, always the same."""
    clear = [pair for pair in possible_pairs() if not mask(*pair[:2])]
    chosen = random.Random(SEED).sample(range(len(clear)), min(COUNT, len(clear)))
    return [clear[i] for i in sorted(chosen)]


def named(bug: str, report: dict[str, Any]) -> str:
    """How the report names a bug: "finding", "suspect", or not."""
    expected = EXPECTED[bug]
    if any(expected.covers(finding["key"]) for finding in findings(report)):
        return "finding"
    results = by_id(report)
    if any(expected.covers(results[suspect["id"]]["key"]) for suspect in report["suspects"]):
        return "suspect"
    return "not named"


def named_by_audit(bug: str, report: dict[str, Any] | None) -> bool:
    """Whether a finding of the audit is among what the bug makes wrong first."""
    if report is None:
        return False
    keys = {result["id"]: result["key"] for result in report["results"]}
    expected = EXPECTED[bug]
    found = (keys[member] for finding in report["findings"] for member in finding["members"])
    return any(expected.covers(key) for key in found)


def pairs_table(runs: Runs, names: Sequence[str]) -> list[str]:
    """The pairs of which both bugs are among `names`."""
    rows = []
    by_audit = by_either = 0
    for first, second, config in pairs():
        if not {first, second} <= set(names):
            continue
        run = runs.trace(dataclasses.replace(config, bug=(first, second)))
        report, _ = runs.compare(config, run)
        audit = runs.audit_report(config, run)
        runs.drop(run)
        how = [named(bug, report) for bug in (first, second)]
        alone = [bug for bug in (first, second) if named_by_audit(bug, audit)]
        by_either += all(
            way != "not named" or bug in alone
            for bug, way in zip((first, second), how, strict=True)
        )
        by_audit += len(alone) == 2
        axes = " ".join(f"{axis} {size}" for axis, size in config.mesh_sizes.items() if size > 1)
        rows.append([axes, first, how[0], second, how[1]])
        rows[-1] += [len(report["findings"]), len(report["suspects"]), " ".join(alone) or "none"]
        print(" | ".join(str(cell) for cell in rows[-1]), file=sys.stderr, flush=True)
    both = sum("not named" not in (row[2], row[4]) for row in rows)
    neither = sum(row[2] == row[4] == "not named" for row in rows)
    masked: dict[str, list[str]] = {}
    for first, second, _ in possible_pairs():
        why = mask(first, second)
        if why:
            masked.setdefault(why, []).append(f"{first}+{second}")
    head = ["layout", "one", "named", "the other", "named", "findings", "second suspects"]
    head.append("audit names")
    return [
        "By `scripts/gallery.sh --two`: pairs of bugs of tests/gallery in one run, compared with",
        f"three noise runs. The {len(rows)} pairs are drawn by a seed from those whose options go",
        "together and where neither bug masks the other. A bug is named if a finding or a second",
        "suspect is among the tensors that it makes wrong first.",
        "",
        f"`compare` names both in {both} of {len(rows)} pairs, neither in {neither}. `audit`,",
        f"which has no reference, names both in {by_audit}; the two commands together name both in",
        f"{by_either}.",
        "",
        table(head, rows),
        "",
        "Left out, for one bug masks the other:",
        "",
        *(f"- {why}: {', '.join(found)}" for why, found in masked.items()),
    ]
