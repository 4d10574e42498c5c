"""Every bug of the gallery, and what `ttrace` says of it, as a table.

    scripts/gallery.sh                   all bugs, in the layouts of gallery/expected.py
    scripts/gallery.sh P1 G7             these
    scripts/gallery.sh --healthy         the same layouts without the bugs
    scripts/gallery.sh --two             pairs of bugs, see two_bugs.py
    scripts/gallery.sh --matrix          through assert_equivalent alone, see through_matrix.py
    ... --write                          also into tests/power/GALLERY.md, TWO_BUGS.md or MATRIX.md

What is expected was written down before anything was measured.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from gallery.config import Config
from gallery.expected import EXPECTED, Expected, module_of, named_cause
from support.reports import findings
from support.ttrace_cli import REPOSITORY

from power import through_matrix, two_bugs
from power.gallery_runs import Runs, Told
from power.tables import table

TABLE = REPOSITORY / "tests" / "power" / "GALLERY.md"
HEAD = (
    "bug",
    "layout",
    "found",
    "first finding",
    "right",
    "findings",
    "window",
    "ranks",
    "cause",
    "expected",
    "seconds",
    "audit",
    "localize",
)


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the table.

    window: in how many modules the findings are.
    audited: whether the run alone tells, at the right place.
    """

    cells: list[Any]
    found: bool
    right: bool
    window: int
    cause_right: bool
    audited: bool


def layout(config: Config) -> str:
    """The options that differ from the trainer's own."""
    said = []
    for field in dataclasses.fields(Config):
        value = getattr(config, field.name)
        if value == field.default or field.name in ("bug", "seed", "trace", "microbatches"):
            continue
        said.append(field.name if value is True else f"{field.name} {value}")
    return " ".join(said)


def measured(runs: Runs, bug: str, expected: Expected) -> Row:
    config = dataclasses.replace(expected.config, bug=(bug,))
    run = runs.trace(config)
    report, seconds = runs.compare(config, run)
    audit, localized = runs.audit(config, run), runs.localize(config, run)
    runs.drop(run)

    found = findings(report)
    diverged = report["exit_code"] == 1
    first, right, window, ranks, cause = "–", False, 0, "–", "–"
    if found:
        key = found[0]["key"]
        first = f"{key['name']} · {key['kind']}"
        right = expected.names_tensor(key["name"]) and expected.in_direction(key["kind"])
        window = len({module_of(one["key"]["kind"], one["key"]["name"]) for one in found})
        ranks = f"{len(found[0]['ranks'])} of {config.ranks}"
        cause = named_cause(found[0])
    cells = [bug, layout(config), _yes(diverged), first, _yes(right), len(found), window, ranks]
    cells += [cause, " / ".join(expected.causes), f"{seconds:.2f}"]
    cells += [_said(audit, expected, expected.audit), _said(localized, expected, True)]
    caught = audit.exit_code == 1 and expected.names_module(audit.name)
    return Row(cells, diverged, right, window, cause in expected.causes, caught)


def _said(told: Told, expected: Expected, possible: bool) -> str:
    if told.note:
        return told.note
    outcome = {0: "nothing", 1: "found", 3: "too little checked"}.get(told.exit_code, "error")
    if told.name:
        right = "right" if expected.names_module(told.name) else "elsewhere"
        outcome += f", {right}: {told.name}"
    return outcome if possible else f"{outcome} (cannot be told)"


def _yes(value: bool) -> str:
    return "yes" if value else "NO"


def bugs_table(runs: Runs, names: Sequence[str]) -> list[str]:
    rows = [_shown(measured(runs, name, EXPECTED[name])) for name in names]
    count = len(rows)
    possible = [name for name in names if EXPECTED[name].audit]
    summary = [
        f"found {sum(row.found for row in rows)} of {count}",
        f"first finding right {sum(row.right for row in rows)} of {count}",
        f"cause right {sum(row.cause_right for row in rows)} of {count}",
        f"one module in the window {sum(row.window == 1 for row in rows)} of {count}",
        f"audit right {sum(row.audited for row in rows)} of {len(possible)} that it can tell",
    ]
    return ["; ".join(summary) + ".", "", table(HEAD, [row.cells for row in rows])]


def _shown(row: Row) -> Row:
    print(" | ".join(str(cell) for cell in row.cells), file=sys.stderr, flush=True)
    return row


def healthy_table(runs: Runs, names: Sequence[str]) -> list[str]:
    """Each layout once."""
    rows: dict[Config, list[Any]] = {}
    alarms = 0
    for name in names:
        config = EXPECTED[name].config
        if config in rows:
            rows[config][0] += f" {name}"
            continue
        run = runs.trace(config)
        report, seconds = runs.compare(config, run)
        audit, localized = runs.audit(config, run), runs.localize(config, run)
        runs.drop(run)
        alarms += report["exit_code"] != 0 or 1 in (audit.exit_code, localized.exit_code)
        told = [_outcome(audit), _outcome(localized)]
        counts = report["counts"]
        cells = [name, layout(config), report["verdict"], counts["total"]]
        rows[config] = [*cells, len(report["findings"]), f"{seconds:.2f}", *told]
        print(" | ".join(str(cell) for cell in rows[config]), file=sys.stderr, flush=True)
    head = ["twin of", "layout", "verdict", "tensors", "findings", "seconds", "audit", "localize"]
    return [f"{alarms} false alarms in {len(rows)} layouts.", "", table(head, rows.values())]


def _outcome(told: Told) -> str:
    names = {0: "holds", 1: f"ALARM {told.name}", 3: "too little checked"}
    return told.note or names.get(told.exit_code, "error")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bugs", nargs="*", metavar="BUG", help="the bugs to run (default: all)")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--healthy", action="store_true", help="the same layouts without bugs")
    kinds.add_argument("--two", action="store_true", help="pairs of bugs")
    kinds.add_argument("--matrix", action="store_true", help="through assert_equivalent alone")
    parser.add_argument("--write", action="store_true", help="also write the page")
    options = parser.parse_args()
    unknown = sorted(set(options.bugs) - set(EXPECTED))
    if unknown:
        parser.error(f"no bug is called {', '.join(unknown)}; known are {', '.join(EXPECTED)}")
    names = options.bugs or list(EXPECTED)

    begin = time.monotonic()
    make: Callable[[Runs, Iterable[str]], list[str]] = bugs_table
    title, page = "The gallery of bugs", TABLE
    if options.healthy:
        make, title = healthy_table, "Healthy twins of the gallery"
    if options.two:
        make, title, page = two_bugs.pairs_table, "Two bugs in one run", two_bugs.TABLE
    if options.matrix:
        make, page = through_matrix.matrix_table, through_matrix.TABLE
        title = "The gallery through assert_equivalent"
    with tempfile.TemporaryDirectory() as folder:
        lines = [f"# {title}", "", *make(Runs(Path(folder)), names)]
    text = "\n".join(lines) + "\n"
    print(text)
    print(f"{time.monotonic() - begin:.0f} seconds in all")
    if options.write and not options.healthy:
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
