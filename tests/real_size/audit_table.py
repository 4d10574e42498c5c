"""The section of REAL_SIZE.md on `ttrace audit`, which reads no reference."""

from __future__ import annotations

from power.store import Record, Store
from power.tables import percent, share, table

from real_size.cases import Case

_VERDICTS = {0: "holds", 1: "broken", 3: "inconclusive"}
_HEAD = [
    *("case", "run", "verdict", "judged", "largest share of its bound, of what holds"),
    *("first finding", "the right place", "findings", "seconds", "of compare"),
]


def lies(store: Store) -> str:
    """The healthy trace with edits, and two bugs at once."""
    rows = [
        [
            record["says"],
            _VERDICTS[record["exit_code"]],
            ", ".join(f"`{one}`" for one in record["found"]) or "**nothing of it**",
            record["rows"][0] if record["rows"] else "–",
            record["findings"],
            f"{record['seconds']:.0f}",
        ]
        for name, record in store.records.items()
        if name.startswith("lies/")
    ]
    head = ["what is wrong", "verdict", "found", "rows of the first", "findings", "seconds"]
    return table(head, rows) if rows else "Not tried."


def text(done: list[tuple[Case, Record]]) -> str:
    """The results of the cases whose records have an audit."""
    rows = []
    alarms, found, named, audited = 0, 0, 0, 0
    for case, record in done:
        if "audit" not in record:
            continue
        audited += 1
        healthy, faulty = record["audit"]["healthy"], record["audit"]["faulty"]
        alarms += healthy["exit_code"] != 0
        found += faulty["exit_code"] == 1
        named += faulty["as_expected"]
        for name, run in (("healthy", healthy), (case.bug.name, faulty)):
            compared = record["stages"]["compare " + ("healthy" if run is healthy else "faulty")]
            rows.append([case.name, name, *_cells(run), f"{run['seconds'] / compared:.1f}"])
    if not rows:
        return "Not audited."
    return (
        f"Each run alone, by `ttrace audit --specification`; the specification is that of the"
        f" reference run. **{alarms} false alarms in {audited} healthy runs; {found} of {audited}"
        f" bugs found, {named} of them named at the right place first.** The last column is the"
        " time over that of `compare` with three noise runs.\n\n"
        f"{table(_HEAD, rows)}\n\n{_reasons(done)}"
    )


def _cells(run: Record) -> list[str]:
    worst = run["worst"]
    return [
        _VERDICTS[run["exit_code"]],
        f"{run['judged']} of {run['tensors']} ({percent(run['judged'], run['tensors'])})",
        f"{share(worst['share'])} ({worst['where']})" if worst else "–",
        run["first"][0] if run["first"] else "–",
        ("yes" if run["as_expected"] else "**no**") if run["first"] else "–",
        str(run["findings"]),
        f"{run['seconds']:.0f}",
    ]


def _reasons(done: list[tuple[Case, Record]]) -> str:
    """Why tensors of healthy runs were not judged."""
    lines = [
        f"- {case.name}: {count} tensors: {reason}"
        for case, record in done
        if "audit" in record
        for reason, count in sorted(record["audit"]["healthy"]["not_judged"].items())
    ]
    return "Not judged in healthy runs:\n\n" + ("\n".join(lines) or "None.")
