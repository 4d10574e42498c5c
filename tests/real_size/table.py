"""REAL_SIZE.md, of a study's raw results."""

from __future__ import annotations

import datetime
import os
import platform
from importlib.metadata import PackageNotFoundError, version

from power.store import Record, Store
from power.tables import share, table

from real_size import audit_table
from real_size.cases import CASES, Case

_VERDICTS = {0: "match", 1: "diverged", 3: "inconclusive"}


def text(store: Store) -> str:
    done = [(case, store.records[case.name]) for case in CASES if case.name in store]
    alarms = [case.name for case, record in done if record["healthy"]["exit_code"] != 0]
    found = [case for case, record in done if record["faulty"]["exit_code"] == 1]
    named = [case for case, record in done if record["faulty"]["as_expected"]]
    return (
        "# Traces of models of real size\n\n"
        f"{datetime.date.today()}, by scripts/real_size.sh: Hugging Face models with random"
        " weights, one step of two micro-batches of 128 tokens, each compared with a reference of"
        " one process and three noise runs of it, once healthy and once with a planted bug.\n\n"
        f"{_builds(store)}torch {_version('torch')}, transformers {_version('transformers')}, "
        f"Python {platform.python_version()}; {os.cpu_count()} cores of {platform.machine()},"
        " gloo. Seconds are of the whole case, six trainings, two comparisons and two audits, on a"
        " machine that may have done other things as well; GB is the most that its traces took at"
        " a time.\n\n"
        f"**{len(alarms)} false alarms in {len(done)} healthy runs; {len(found)} of {len(done)}"
        f" bugs found, {len(named)} of them named at the right place first.** A"
        f" case may take ten minutes and 30 GB: {_over(done)}.\n\n"
        f"## Healthy runs\n\n{_healthy(done)}\n\n"
        f"## Planted bugs\n\n{_bugs(done)}\n\n"
        f"## Audit\n\n{audit_table.text(done)}\n\n"
        "## Audit of edited traces, and of two bugs at once\n\n"
        "The healthy trace of llama-tp-fsdp2-bf16 with one tensor edited (`python -m"
        " real_size.lies`), and a run with two of the bugs.\n\n"
        f"{audit_table.lies(store)}\n\n"
        "## Gradient norms\n\n"
        "As torch recorded them and, from the same gradients, in double precision. What a sum of so"
        " many squares loses is allowed; the candidate's is judged by its own main gradients.\n\n"
        f"{_norms(done)}\n\n"
        f"## Alarms and misses\n\n{_wrong(done)}\n\n"
        f"## Not run\n\n{_not_run(store)}\n"
    )


def _over(done: list[tuple[Case, Record]]) -> str:
    over = [c.name for c, record in done if record["seconds"] > 600 or record["bytes"] > 30e9]
    return f"more was taken by {', '.join(over)}" if over else "none took more"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _builds(store: Store) -> str:
    builds = sorted({record.get("build", "") for record in store.records.values()} - {""})
    return f"`ttrace` of {', '.join(builds)}, " if builds else ""


def _healthy(done: list[tuple[Case, Record]]) -> str:
    rows = []
    for case, record in done:
        healthy = record["healthy"]
        part, closest = max(healthy["worst"].items(), key=lambda one: one[1]["share"])
        rows.append(
            [
                case.name,
                case.ranks,
                f"{record['parameters'] / 1e6:.0f} M",
                healthy["tensors"],
                f"{record['seconds']:.0f}",
                f"{record['bytes'] / 1e9:.1f}",
                _VERDICTS[healthy["exit_code"]],
                f"{share(closest['share'])} ({part}, {closest['where']})",
                f"{healthy['tensors_beyond']} ({healthy['slices_beyond']})",
                healthy["unchecked"],
            ]
        )
    head = ["case", "ranks", "parameters", "tensors", "seconds", "GB", "verdict"]
    return table(
        [*head, "largest share of its limit", "tensors beyond (slices)", "not checked"], rows
    )


def _bugs(done: list[tuple[Case, Record]]) -> str:
    rows = []
    for case, record in done:
        faulty = record["faulty"]
        first = faulty["first"][0] if faulty["first"] else "–"
        right = "yes" if faulty["as_expected"] else "**no**"
        verdict = _VERDICTS[faulty["exit_code"]]
        rows.append([case.name, case.bug.says, verdict, first, right, faulty["tensors_beyond"]])
    head = ["case", "bug", "verdict", "first finding", "the right place", "tensors beyond"]
    return table(head, rows)


def _norms(done: list[tuple[Case, Record]]) -> str:
    rows = []
    for case, record in done:
        cells = [case.name]
        for side in ("reference", "healthy"):
            recorded, exact = record["norms"][side]
            cells += [f"{recorded:.6g}", f"{exact:.6g}", f"{recorded / exact - 1:+.1e}"]
        judged = record["healthy"]["grad_norm_result"]
        outcomes = [f"{result['outcome']} ({result.get('rule', '–')})" for result in judged]
        allowed = [f"{result['allowed']:.1e}" for result in judged if "allowed" in result]
        rows.append([*cells, ", ".join(outcomes) or "not recorded", ", ".join(allowed) or "–"])
    head = ["case", "reference", "exact", "off by", "candidate", "exact", "off by", "judged"]
    return table([*head, "allowed"], rows)


def _wrong(done: list[tuple[Case, Record]]) -> str:
    """What the report said where it should have said something else."""
    lines = []
    for case, record in done:
        healthy, faulty = record["healthy"], record["faulty"]
        if healthy["exit_code"] != 0:
            lines.append(f"- {case.name}, healthy: {healthy['answer']}")
            lines += [f"  - {_told(one)}" for one in healthy["beyond"][:5]]
        if faulty["exit_code"] != 1 or not faulty["as_expected"]:
            lines.append(f"- {case.name}, {case.bug.says}: {faulty['answer']}")
        elif faulty["suspects"] or faulty["elsewhere"]:
            lines.append(f"- {case.name}, more than the one bug: {faulty['answer']}")
            lines += [f"  - also {where}" for where in faulty["elsewhere"][:3]]
    return "\n".join(lines) or "None."


def _told(one: Record) -> str:
    """A tensor beyond its tolerance in one line."""
    said = [f"{one['where']}: {one['outcome']}"]
    said += [
        f"{what} {one[what]}" for what in ("error", "allowed", "rule", "reason") if what in one
    ]
    return ", ".join(said)


def _not_run(store: Store) -> str:
    lines = []
    for case in CASES:
        if case.name not in store:
            failed = store.records.get(f"failed/{case.name}")
            why = (failed["why"].strip().splitlines() or ["?"])[-1] if failed else "not tried yet"
            lines.append(f"- {case.name}: {why}")
    return "\n".join(lines) or "None."
