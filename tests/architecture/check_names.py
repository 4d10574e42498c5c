#!/usr/bin/env python3
"""One name, one type: a reader who meets a type's name in two places may take them for one.

* Every type that a header of lib/ or apps/ declares, alias or class, has a name of its own: no
  other header declares a type of that name, in whatever namespace.
* Inside a room a type that a source declares for itself, in an anonymous namespace or in a class,
  has a name that no other file of the room gives to a type.

Exits 1 with one line per name.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

from check_sources import Sources, room_of

# A definition; what a declaration in advance (`struct Name;`) names is not one.
DEFINED = re.compile(
    r"^(?P<indent> *)(?:struct|class|enum class|enum|union)\s+"
    r"(?:\[\[\w+\]\]\s*|alignas\([^)]*\)\s*)?(?P<name>\w+)(?:<[^;{]*>)?(?:\s+final)?"
    r"\s*(?::[^;{:][^;{]*)?\{",
    re.MULTILINE,
)
ALIAS = re.compile(r"^(?P<indent> *)(?:__extension__ )?using (?P<name>\w+) =", re.MULTILINE)


def defined_types(code: str) -> set[tuple[str, bool]]:
    """Names of types, and whether they stand in a namespace: there, lines are not indented."""
    found = [*DEFINED.finditer(code)]
    found += [match for match in ALIAS.finditer(code) if not match["indent"]]
    return {(match["name"], not match["indent"]) for match in found}


def shared_public_names(types: dict[str, set[tuple[str, bool]]]) -> list[str]:
    places = defaultdict(set)
    for path, found in types.items():
        if path.endswith(".h"):
            for name, in_namespace in found:
                if in_namespace:
                    places[name].add(path)
    return [
        f"{name} is a type of {', '.join(sorted(paths))}"
        for name, paths in sorted(places.items())
        if len(paths) > 1
    ]


def shared_names_of_rooms(types: dict[str, set[tuple[str, bool]]]) -> list[str]:
    places = defaultdict(set)
    for path, found in types.items():
        for name, _ in found:
            places[room_of(path), name].add(path)
    return [
        f"{room}: {name} is a type of {', '.join(sorted(paths))}"
        for (room, name), paths in sorted(places.items())
        if len(paths) > 1 and any(path.endswith(".cpp") for path in paths)
    ]


def violations(root: Path) -> list[str]:
    sources = Sources(root)
    types = {path: defined_types(code) for path, code in sources.code.items()}
    found = shared_public_names(types) + shared_names_of_rooms(types)
    if sum(len(names) for names in types.values()) < 500:
        found.append(f"fewer than 500 types found: is {root} the repository?")
    return found


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2]
    found = violations(root)
    for line in found:
        print(line)
    print(f"{len(found)} names that are several types")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
