"""Tables of the healthy grid: false alarms, and what came closest to its limit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from power.healthy import NOISE as NOISE_SEEDS
from power.runs import SEEDS
from power.store import Record, Store
from power.tables import percent, share, table

NOISE = {0: "none (fallback rule)", 1: "one", 3: "three"}
PARTS = ("shard", "block", "element", "scale")
PLACES = ("tensor", *PARTS, "replayed update", "replayed gradient norm")


def compared(store: Store, noise: int | None = None) -> list[Record]:
    """Comparisons of healthy runs, those with so many noise runs."""
    known = [record for record in store.of("healthy") if "failed" not in record]
    return [record for record in known if noise is None or len(record["noise"]) == noise]


def untrained(store: Store) -> dict[str, str]:
    """Run -> why it could not be trained."""
    return {_run(record): record["failed"] for record in store.of("healthy") if "failed" in record}


def _run(record: Record) -> str:
    return f"{record['framework']} {record['model']} {record['run']}"


def alarms(records: Sequence[Record]) -> list[Record]:
    return [record for record in records if record["exit_code"] != 0]


def _told_apart(records: Sequence[Record]) -> str:
    """How many of the alarms are wrong, and how many say that they cannot tell."""
    diverged = sum(record["exit_code"] == 1 for record in records)
    return f"{diverged} diverged, {len(alarms(records)) - diverged} inconclusive"


def by_noise(store: Store) -> str:
    rows = []
    for count, name in NOISE.items():
        records = compared(store, count)
        false = alarms(records)
        tensors = sum(record["tensors"] for record in records)
        beyond = sum(record["tensors_beyond"] for record in records)
        slices = sum(record["slices_beyond"] for record in records)
        unchecked = sum(record["unchecked"] for record in records)
        rate = percent(len(false), len(records))
        row = [name, len(records), len(false), rate, _told_apart(records)]
        rows.append([*row, tensors, beyond, slices, unchecked])
    head = ["noise runs", "comparisons", "with an alarm", "", "of them", "tensors", "beyond"]
    return table([*head, "slices beyond", "not checked"], rows)


def by_precision_and_axis(store: Store, noise: int) -> str:
    """A run of several axes counts for each of them."""
    return _matrix(
        compared(store, noise),
        "axis",
        lambda record: record["axes"] or ["(none)"],
        lambda record: [record["precision"]],
    )


def by_pair(store: Store, noise: int) -> str:
    """Runs that have both axes; on the diagonal, that have the axis at all."""
    return _matrix(compared(store, noise), "", lambda r: r["axes"], lambda r: r["axes"])


def by_model(store: Store) -> str:
    groups: dict[tuple[str, str, str], list[Record]] = defaultdict(list)
    for record in compared(store, 3):
        groups[record["framework"], record["precision"], record["model"]].append(record)
    rows = []
    for (framework, precision, model), records in groups.items():
        worst = max((r["worst"].get("tensor", {}).get("share", 0) for r in records), default=0)
        tensors = f"{min(r['tensors'] for r in records)}–{max(r['tensors'] for r in records)}"
        rows.append(
            [framework, model, precision, len(records), tensors, len(alarms(records)), share(worst)]
        )
    head = ["framework", "model", "precision", "runs", "tensors a run", "alarms"]
    return table([*head, "worst tensor / limit"], rows)


def closest(store: Store) -> str:
    """The largest share of its limit, by what was judged."""
    rows = []
    for count, name in NOISE.items():
        precisions = sorted({record["precision"] for record in compared(store, count)})
        for place in PLACES:
            for precision in precisions:
                found = [
                    (record["worst"][place]["share"], _run(record), record["worst"][place]["where"])
                    for record in compared(store, count)
                    if record["precision"] == precision and place in record["worst"]
                ]
                if found:
                    worst, run, where = max(found)
                    rows.append([name, place, precision, share(worst), run, where])
    return table(["noise runs", "what", "precision", "share of its limit", "run", "where"], rows)


def listed(store: Store) -> str:
    """Every run with a false alarm: tensors beyond (and slices), by noise seeds."""
    groups: dict[tuple[str, str], dict[tuple[int, ...], Record]] = defaultdict(dict)
    for record in alarms(compared(store)):
        groups[_run(record), record["precision"]][tuple(record["noise"])] = record
    rows = []
    for (run, precision), by_seeds in groups.items():
        cells = [_beyond(by_seeds.get(seeds)) for seeds in NOISE_SEEDS]
        last = by_seeds[max(by_seeds, key=NOISE_SEEDS.index)]
        first = last["beyond"][0]["where"] if last["beyond"] else last["answer"]
        rows.append([run, precision, *cells, first])
    if not rows:
        return "None."
    heads = ["no noise run", *(f"seed {seed}" for seed in SEEDS), "all three"]
    return table(["run", "precision", *heads, "first"], rows)


def _beyond(record: Record | None) -> str:
    if record is None:
        return "–"
    slices = f" ({record['slices_beyond']})" if record["slices_beyond"] else ""
    return f"{record['tensors_beyond']}{slices}"


def headline(store: Store) -> list[tuple[str, str, str]]:
    """(what, target, measured) of the issue's targets on false alarms."""
    with_three, with_one = compared(store, 3), compared(store, 1)
    tensors = sum(record["tensors_beyond"] for record in with_three)
    slices = sum(record["slices_beyond"] for record in with_three)
    runs = len(alarms(with_three))
    said = (
        f"{tensors} tensors, {slices} slices, in {runs} of {len(with_three)} runs"
        f" ({_told_apart(with_three)})"
    )
    one = alarms(with_one)
    rate = percent(len(one), len(with_one))
    comparisons = f"{len(one)} of {len(with_one)} comparisons ({rate}: {_told_apart(with_one)})"
    of_runs = f"{len({_run(record) for record in one})} of {len({_run(r) for r in with_one})} runs"
    three = "false alarms over the healthy grid with 3 noise runs"
    return [
        (three, "0 tensors, 0 slices", said),
        ("the same with 1 noise run", "≤ 1 run in 100", f"{comparisons}, in {of_runs}"),
    ]


def _matrix(
    records: Sequence[Record],
    corner: str,
    rows_of: Callable[[Record], list[str]],
    columns_of: Callable[[Record], list[str]],
) -> str:
    """Runs with an alarm of runs, by row and column."""
    cells: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        for row in rows_of(record):
            for column in columns_of(record):
                cells[row, column].append(record)
    columns = sorted({column for _, column in cells})
    lines = [
        [row, *(_cell(cells.get((row, column))) for column in columns)]
        for row in sorted({row for row, _ in cells})
    ]
    return table([corner, *columns], lines)


def _cell(records: list[Record] | None) -> str:
    return f"{len(alarms(records))} of {len(records)}" if records else "–"
