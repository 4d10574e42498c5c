"""Tables of the smallest faults that are caught."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from power.detection import FRACTIONS
from power.store import Record, Store
from power.tables import percent, share, size, smallest_for, table, three

OTHERS = ("shards_swapped", "part_dropped", "row_zeroed", "stale", "rounded_to_bf16")
# Classes of tensors by their elements, each from here to the next.
SIZES = (0, 256, 1024, 4096, 16384, 65536)
Sizes = list["float | None"]


def _tensors(store: Store) -> Iterator[tuple[Record, Record]]:
    for record in store.of("selftest"):
        for tensor in record.get("tensors", []):
            yield record, tensor


def _size(tensor: Record, fault: str) -> float | None:
    found = tensor["faults"][fault]
    return None if isinstance(found, str) else found


def scales(store: Store) -> dict[str, Sizes]:
    """Precision -> the smallest scale error caught, of every tensor."""
    found: dict[str, Sizes] = defaultdict(list)
    for record, tensor in _tensors(store):
        if "scaled" in tensor["faults"]:
            found[record["precision"]].append(_size(tensor, "scaled"))
    return found


def part_ratios(store: Store) -> dict[str, list[float]]:
    """Precision -> of every tensor, the size caught in its sixteenth over that of the whole.

    Infinite where only the whole is caught.
    """
    found: dict[str, list[float]] = defaultdict(list)
    for record, tensor in _tensors(store):
        quotient = _quotient(tensor)
        if quotient is not None:
            found[record["precision"]].append(quotient)
    return found


def _quotient(tensor: Record) -> float | None:
    if not {"scaled", "part_scaled"} <= tensor["faults"].keys():
        return None
    whole, part = _size(tensor, "scaled"), _size(tensor, "part_scaled")
    if whole is None:
        return None
    return float("inf") if part is None else part / whole


def by_kind(store: Store) -> str:
    groups: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record, tensor in _tensors(store):
        groups[record["precision"], tensor["kind"]].append(tensor)
        groups[record["precision"], "all kinds"].append(tensor)
    rows = []
    for (precision, kind), tensors in sorted(groups.items()):
        whole = [_size(t, "scaled") for t in tensors if "scaled" in t["faults"]]
        part = [_size(t, "part_scaled") for t in tensors if "part_scaled" in t["faults"]]
        rows.append([precision, kind, len(tensors), *three(whole), *three(part)])
    head = ["precision", "kind", "tensors", "whole: half", "9 of 10", "all"]
    return table([*head, "1/16: half", "9 of 10", "all"], rows)


def ratios(store: Store) -> str:
    rows = []
    for precision, found in sorted(part_ratios(store).items()):
        within = sum(ratio <= 2 for ratio in found)
        row = [precision, len(found), percent(within, len(found))]
        rows.append([*row, *(_ratio(smallest_for(found, part)) for part in (0.5, 0.9, 1.0))])
    head = ["precision", "tensors", "caught at most at 2 × the whole's size"]
    return table([*head, "ratio: half", "9 of 10", "all"], rows)


def ratios_by_size(store: Store) -> str:
    """A tensor is judged in more and smaller parts the more elements it has."""
    found: dict[tuple[str, int], list[float]] = defaultdict(list)
    for record, tensor in _tensors(store):
        quotient = _quotient(tensor)
        if quotient is not None:
            found[record["precision"], _class(tensor["elements"])].append(quotient)
    rows = []
    for (precision, least), quotients in sorted(found.items()):
        within = percent(sum(q <= 2 for q in quotients), len(quotients))
        sized = [_ratio(smallest_for(quotients, part)) for part in (0.5, 0.9)]
        rows.append([precision, _range(least), len(quotients), within, *sized])
    return table(
        ["precision", "elements", "tensors", "ratio at most 2", "ratio: half", "9 of 10"], rows
    )


def _range(least: int) -> str:
    above = [end for end in SIZES if end > least]
    return f"{least:,} to {above[0] - 1:,}" if above else f"{least:,} or more"


def _class(elements: int) -> int:
    return max(least for least in SIZES if least <= elements)


def _ratio(value: float | None) -> str:
    return "not caught" if value is None else f"{value:.2g} ×"


def others(store: Store) -> str:
    tried: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for record, tensor in _tensors(store):
        for fault in OTHERS:
            if fault in tensor["faults"]:
                tried[record["precision"], fault].append(tensor["faults"][fault] == "caught")
    precisions = sorted({precision for precision, _ in tried})
    rows = []
    for fault in OTHERS:
        cells = [tried[precision, fault] for precision in precisions]
        said = [f"{sum(c)} of {len(c)} ({percent(sum(c), len(c))})" if c else "–" for c in cells]
        rows.append([fault.replace("_", " "), *said])
    return table(["fault", *precisions], rows)


def by_fraction(store: Store) -> str:
    """Scale errors in parts of tensors, put into copies of the traces."""
    sizes: dict[tuple[str, str], dict[str, float | None]] = defaultdict(dict)
    for record in store.of("fraction"):
        for one in record["tensors"]:
            tensor = "/".join([record["model"], record["run"], *map(str, one["key"])])
            sizes[record["precision"], record["fraction"]][tensor] = one["size"]
    rows = []
    for precision in sorted({precision for precision, _ in sizes}):
        for fraction in FRACTIONS:
            found, whole = sizes[precision, fraction], sizes[precision, "1"]
            both = [(found[t], whole[t]) for t in found if whole.get(t) is not None]
            quotients = [float("inf") if f is None else f / w for f, w in both]
            within = percent(sum(q <= 2 for q in quotients), len(quotients))
            median = smallest_for(quotients, 0.5)
            rows.append(
                [
                    precision,
                    fraction,
                    len(found),
                    *three(list(found.values())),
                    _ratio(median),
                    within,
                ]
            )
    head = ["precision", "part", "tensors", "half", "9 of 10", "all", "ratio to the whole, half"]
    return table([*head, "ratio at most 2"], rows)


def by_build(store: Store) -> str:
    """Of the tensors that each build of `ttrace` was tried on, which are not the same."""
    groups: dict[tuple[str, str], list[Record]] = defaultdict(list)
    models: dict[tuple[str, str], set[str]] = defaultdict(set)
    for record, tensor in _tensors(store):
        key = record["precision"], record.get("build", "")
        groups[key].append(tensor)
        models[key].add(record["model"])
    rows = []
    for (precision, build), tensors in sorted(groups.items()):
        sizes = {
            fault: [_size(t, fault) for t in tensors if fault in t["faults"]]
            for fault in ("scaled", "part_scaled")
        }
        quotients = [q for q in map(_quotient, tensors) if q is not None]
        within = percent(sum(q <= 2 for q in quotients), len(quotients))
        name = ", ".join(sorted(models[precision, build]))
        row = [precision, build or "the first build", name, len(tensors)]
        rows.append([*row, *three(sizes["scaled"]), *three(sizes["part_scaled"])[:2], within])
    head = ["precision", "build", "models", "tensors", "whole: half", "9 of 10", "all"]
    return table([*head, "1/16: half", "9 of 10", "ratio at most 2"], rows)


def headline(store: Store) -> list[tuple[str, str, str]]:
    """(what, target, measured) of the issue's targets on detection."""
    targets = {"bf16": "≤ 8 %", "fp32": "≤ 3e-6"}
    found = []
    for precision, sizes in sorted(scales(store).items()):
        measured = f"{size(smallest_for(sizes, 0.9))} ({len(sizes)} tensors)"
        what = f"scale error caught in 9 of 10 tensors, {precision}"
        found.append((what, targets.get(precision, "none set"), measured))
    for precision, quotients in sorted(part_ratios(store).items()):
        within = percent(sum(q <= 2 for q in quotients), len(quotients))
        median = smallest_for(quotients, 0.5)
        measured = f"{within} of {len(quotients)} tensors; half at {share(median or 0)} ×"
        what = f"fault in 1/16 of a tensor caught at the size of the whole's, {precision}"
        found.append((what, "ratio within a factor 2", measured))
    return found
