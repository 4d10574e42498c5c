"""The manifest as text. Equal values give equal bytes; each tensor has one line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ttrace_torch.base.dtypes import StepPrecision
from ttrace_torch.capture.records import Record

SCHEMA = "ttrace.manifest/2"
LISTS = ("tensors", "optimizer", "modules")
_ROWS = ",\n"
KEY = ("step", "microbatch", "kind", "name", "call", "copy")


def key_of(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    """The tensor key of an entry, with defaults."""
    return tuple(entry.get(member, 0 if member in ("call", "copy") else None) for member in KEY)


def id_of(entry: Mapping[str, Any]) -> str:
    """The id of an entry, "step/mb/kind/name/call/copy", with "-" for no micro-batch."""
    return "/".join("-" if part is None else str(part) for part in key_of(entry))


def describe_key(entry: Mapping[str, Any]) -> str:
    """The key of an entry in words, for messages."""
    where = f"step {entry['step']}"
    for member, word in (("microbatch", "micro-batch"), ("call", "call"), ("copy", "copy")):
        if entry.get(member):
            where += f", {word} {entry[member]}"
        elif member == "microbatch" and entry.get(member) == 0:
            where += ", micro-batch 0"
    return f"{entry['name']} · {entry['kind']} · {where}"


def sorted_tensors(entries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Entries by step, then execution order, then key."""

    def rank_of(entry: Mapping[str, Any]) -> tuple[Any, ...]:
        microbatch = entry.get("microbatch")
        place = (entry["step"], entry.get("order", 0), -1 if microbatch is None else microbatch)
        return (*place, entry["kind"], entry["name"], entry.get("call", 0), entry.get("copy", 0))

    return sorted(entries, key=rank_of)


class TensorRows:
    """The rows of a rank's tensors, by step and in execution order.

    Most tensors of a step have all but name and order in common with others; such facts become
    text once.

    computed: all that `computed_in` says.
    """

    def __init__(self) -> None:
        self.computed: set[str] = set()
        self._count = 0
        self._steps: dict[int, str] = {}
        # Facts -> the text between name and order, and behind it.
        self._known: dict[Any, tuple[str, str]] = {}

    def __len__(self) -> int:
        return self._count

    def add(self, records: Iterable[Record], precision: StepPrecision) -> None:
        """Adds the records of a step, in execution order."""
        self._known.clear()
        rows = []
        for record in records:
            before, after = self._around(record, precision)
            name = _compact(record.key.name)
            rows.append(f'{{"name": {name}{before}"order": {record.order}{after}')
            step = record.key.step
        if rows:
            self._steps[step] = _ROWS.join(rows)
            self._count += len(rows)

    def all(self) -> list[str]:
        """The text of all rows, in parts."""
        return [self._steps[step] for step in sorted(self._steps)]

    def _around(self, record: Record, precision: StepPrecision) -> tuple[str, str]:
        facts = record.facts(precision)
        try:
            known = self._known.get(facts)
        except TypeError:  # placements that the user made of lists
            return self._made(record, precision)
        if known is None:
            known = self._known[facts] = self._made(record, precision)
        return known

    def _made(self, record: Record, precision: StepPrecision) -> tuple[str, str]:
        entry = record.entry(precision)
        if "computed_in" in entry:
            self.computed.add(entry["computed_in"])
        text = _compact({**entry, "name": "", "order": 0}).removeprefix('{"name": ""')
        before, _, after = text.rpartition('"order": 0')
        return before, after


def dumps(manifest: Mapping[str, Any]) -> str:
    """The manifest as JSON text. Throws ValueError for numbers that are not finite."""
    members = []
    for name in ("schema", "run", "meshes"):
        if name in manifest:
            members.append(f"{_compact(name)}: {_compact(manifest[name])}")
    for name in LISTS:
        if name in manifest:
            rows = _ROWS.join(map(_row, manifest[name]))
            members.append(f"{_compact(name)}: [\n{rows}\n]" if rows else f"{_compact(name)}: []")
    return "{\n" + ",\n".join(members) + "\n}\n"


def _row(row: str | Mapping[str, Any]) -> str:
    """The text of an entry, if it is no text yet."""
    return row if isinstance(row, str) else _compact(row)


_compact = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
