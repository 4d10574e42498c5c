"""RESULTS.md, of a study's raw results."""

from __future__ import annotations

import datetime
import os
import platform
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import h5py
import torch
from support.ttrace_cli import run_ttrace

from power import alarms, limits
from power.picture import draw
from power.rows import TOKENS
from power.runs import SEEDS
from power.store import Store
from power.tables import percent, table

LIMIT = 2_000_000  # bytes of a calibration file, or 0.1 % of the reference


def write(store: Store, folder: Path, unfinished: Sequence[str]) -> None:
    """RESULTS.md and error_over_noise.png into `folder`.

    unfinished: runs of the grid that are not in the store.
    """
    draw(store, folder / "error_over_noise.png")
    (folder / "RESULTS.md").write_text(text(store, unfinished), encoding="utf-8")


def text(store: Store, unfinished: Sequence[str]) -> str:
    runs = len(alarms.compared(store, 3))
    headline = [*alarms.headline(store), *limits.headline(store), *_faults_headline(store)]
    sections = {
        "Targets": table(["what", "target", "measured"], headline),
        "False alarms by noise runs": alarms.by_noise(store),
        "False alarms by precision and axis, three noise runs": (
            "Runs with an alarm, of runs. A run of several axes counts for each of them.\n\n"
            + alarms.by_precision_and_axis(store, 3)
        ),
        "False alarms by pair of axes, three noise runs": alarms.by_pair(store, 3),
        "False alarms by precision and axis, single noise runs": (
            alarms.by_precision_and_axis(store, 1)
        ),
        "The grid": alarms.by_model(store),
        "Closest to the limit": (
            "The largest share of its limit in all healthy runs. Of the shards, blocks and elements"
            " of a tensor only the one closest to its limit is reported, and counted here.\n\n"
            + alarms.closest(store)
        ),
        "All false alarms": (
            "Tensors beyond their tolerance (and slices), by the noise runs that were given; with"
            " tokens that a router sent elsewhere, which are told and are no alarm by themselves,"
            " but what follows from them may stay unjudged (exit code 3).\n\n"
            + alarms.listed(store)
        ),
        "Smallest caught scale error, by `ttrace selftest`": (
            "Caught in half, nine of ten and all of the tensors, three noise runs.\n\n"
            + limits.by_kind(store)
        ),
        **_limits_by_build(store),
        "A fault in a sixteenth over the same in the whole tensor": (
            "A part of 64 elements or more is judged by itself. By the norm of its difference a"
            " scale error stands out from the part's noise as the whole's does from the whole's; by"
            " the scale, which tells far smaller errors of whole tensors, 4 times less: what n"
            " roundings leave of a scale is an average over n. A smaller part is judged with its"
            " tensor, whose norm has 1/4 of the error and whose scale 1/16.\n\n"
            + limits.ratios(store)
            + "\n\n"
            + limits.ratios_by_size(store)
        ),
        "Other faults, caught of tried": limits.others(store),
        "By fraction of the tensor": (
            "Scale errors put into copies of the traces, in one dimension that no axis cuts.\n\n"
            + limits.by_fraction(store)
        ),
        "Faulty runs, three noise runs": _faults(store),
        "Keys left out": _keys(store),
        "Calibration files": _calibrations(store),
        "Error over noise": (
            "![Error over noise](error_over_noise.png)\n\nThe limit has a floor too, and is wider "
            "where few elements make up the noise: a healthy tensor may stand beyond 4 × noise."
            " A tensor is faulty where the bug's own description says that it is wrong first."
        ),
        "Measured by": _builds(store),
        "Not measured": _not_measured(store, unfinished),
    }
    body = "\n\n".join(f"## {title}\n\n{section}" for title, section in sections.items())
    return f"# What the tolerances let pass and catch\n\n{_about(store, runs)}\n\n{body}\n"


def _limits_by_build(store: Store) -> dict[str, str]:
    if len({record.get("build", "") for record in store.of("selftest")}) < 2:
        return {}
    return {
        "Smallest caught scale error, by build": (
            "A line is of what its build was tried on; the lines of all builds together make up"
            " every other table.\n\n" + limits.by_build(store)
        )
    }


def _about(store: Store, runs: int) -> str:
    frameworks = sorted({record["framework"] for record in alarms.compared(store)})
    sets = sorted({r["instruction_set"] for r in alarms.compared(store)})
    version = run_ttrace("--version").stdout.splitlines()[0]
    seeds = ", ".join(map(str, SEEDS))
    today = datetime.datetime.now(datetime.timezone.utc).date()
    return (
        f"{today}, by scripts/power_study.sh: {runs} healthy candidate runs of "
        f"{', '.join(frameworks)}, each compared with no noise run, with each of three and with "
        f"all three (seeds {seeds}); weights and data have the seeds of the grid's rows.\n\n"
        f"{version}, torch {torch.__version__}, h5py {h5py.__version__}, "
        f"Python {platform.python_version()}; {os.cpu_count()} cores of {platform.machine()}, "
        f"comparisons with {', '.join(sets)}. Traces and numbers depend on the machine's kernels in"
        " their last digits; times are not measured here."
    )


def _faults_headline(store: Store) -> list[tuple[str, str, str]]:
    tokens = [record for record in store.of("faulty") if record["fault"].startswith(TOKENS)]
    tokens = [record for record in tokens if record["precision"] == "bf16"]
    right = sum(r.get("exit_code") == 1 and r.get("as_expected", False) for r in tokens)
    removed = [one for r in store.of("keys") for one in (r["removed"], r["added"])]
    tried, wrong = (sum(one["tried"] for one in removed), sum(len(o["wrong"]) for o in removed))
    lost = [one for r in store.of("keys") for one in (r["rank_lost"],)]
    ranks, wrong_ranks = (sum(o["tried"] for o in lost), sum(len(o["wrong"]) for o in lost))
    sizes = store.of("calibration")
    fit = sum(r["file_bytes"] <= max(LIMIT, 0.001 * r["reference_bytes"]) for r in sizes)
    return [
        (
            "all gradients of a bf16 run 3.2 % too large",
            "diverged, at the loss's gradient",
            f"{right} of {len(tokens)} runs",
        ),
        (
            "a key that one side lacks",
            "named, exit 1",
            f"{tried - wrong} of {tried} keys",
        ),
        ("a rank that is missing", "exit 3", f"{ranks - wrong_ranks} of {ranks} ranks"),
        ("calibration file", "≤ 0.1 % of the reference, or 2 MB", f"{fit} of {len(sizes)} files"),
        (
            "`compare` with a tolerance file",
            "≤ 1.05 × the time without",
            "see scripts/BENCHMARKS.md",
        ),
    ]


def _faults(store: Store) -> str:
    rows = []
    for record in store.of("faulty"):
        place = [record["framework"], record["model"], record["precision"], record["fault"]]
        if "failed" in record:
            rows.append([*place, "could not be trained", "", ""])
            continue
        first = record["first"][0] if record["first"] else "–"
        found = "yes" if record["as_expected"] else "**no**"
        rows.append([*place, record["exit_code"], first, found])
    head = ["framework", "model", "precision", "fault", "exit code", "first at", "as expected"]
    return table(head, rows)


def _keys(store: Store) -> str:
    rows = []
    for record in store.of("keys"):
        cells = []
        for what in ("removed", "added", "shard_lost", "rank_lost"):
            tried, wrong = record[what]["tried"], record[what]["wrong"]
            cells.append(f"{tried - len(wrong)} of {tried}" if tried else "–")
        rows.append([record["framework"], record["model"], record["run"], *cells])
    head = ["framework", "model", "run", "key missing: named, exit 1", "key added: named, exit 1"]
    return table([*head, "one rank's shard lost: exit 3", "rank lost: exit 3"], rows)


def _calibrations(store: Store) -> str:
    records = store.of("calibration")
    if not records:
        return "None."
    largest = max(records, key=lambda r: r["file_bytes"] / r["reference_bytes"])
    ratio = percent(largest["file_bytes"], largest["reference_bytes"])
    bytes_ = max(record["file_bytes"] for record in records)
    return (
        f"{len(records)} files, the largest of {bytes_:,} bytes; at most {ratio} of its reference, "
        f"which has {largest['reference_bytes']:,} bytes."
    )


def _builds(store: Store) -> str:
    """Results of several builds of `ttrace` may stand side by side."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for name, record in store.records.items():
        what = name.split("/")[0]
        where = f"{record['framework']} {record['model']}" if "framework" in record else "all"
        counts[record.get("build", ""), what, where] += 1
    rows: dict[tuple[str, str], list[str]] = defaultdict(list)
    for (build, what, where), count in counts.items():
        rows[build, what].append(f"{where} ({count})")
    builds = sorted({build for build, _ in rows})
    if len(builds) == 1:
        return f"All by {builds[0] or 'one build'}."
    lines = []
    for (build, what), found in sorted(rows.items()):
        # The first stands for all that has not been measured again.
        where = ", ".join(sorted(found)) if build else f"all others ({len(found)} models)"
        lines.append([build or "the first build", what, where])
    return table(["build", "what", "of (results)"], lines)


def _not_measured(store: Store, unfinished: Sequence[str]) -> str:
    failed = alarms.untrained(store)
    lines = ["- Times: see scripts/BENCHMARKS.md."]
    if unfinished:
        lines.append(f"- {len(unfinished)} runs of the grid: {', '.join(unfinished)}.")
    lines += [
        f"- {run} could not be trained: {why.splitlines()[-1]}" for run, why in failed.items()
    ]
    for record in store.of("selftest"):
        if "failed" in record or not record["tensors"]:
            why = (record.get("failed") or record.get("why") or "no tensor").splitlines()[0]
            place = f"{record['framework']} {record['model']} {record['run']}"
            lines.append(f"- `ttrace selftest` of {place}: {why}")
    return "\n".join(lines)
