"""The manifest as text. Equal values give equal bytes; each tensor has one line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

SCHEMA = "ttrace.manifest/2"
LISTS = ("tensors", "optimizer", "modules")
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


def dumps(manifest: Mapping[str, Any]) -> str:
    """The manifest as JSON text. Throws ValueError for numbers that are not finite."""
    members = []
    for name in ("schema", "run", "meshes"):
        if name in manifest:
            members.append(f"{_compact(name)}: {_compact(manifest[name])}")
    for name in LISTS:
        if name in manifest:
            rows = ",\n".join(_compact(row) for row in manifest[name])
            members.append(f"{_compact(name)}: [\n{rows}\n]" if rows else f"{_compact(name)}: []")
    return "{\n" + ",\n".join(members) + "\n}\n"


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
