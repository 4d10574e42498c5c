#!/usr/bin/env python3
"""One name, one thing: a reader who meets a type's name in two places may take them for one.

* Every type that a header of lib/ or apps/ declares, alias or class, has a name of its own: no
  other header declares a type of that name, in whatever namespace.
* Inside a room a type that a source declares for itself, in an anonymous namespace or in a class,
  has a name that no other file of the room gives to a type.
* A source of lib/ with a function that a header declares has a header of its own name, where a
  reader looks for it: `plan.cpp` declares in `plan.h`. Entries of a table have the table's header,
  and the JSON of a header and its code for instruction sets have that header.

Exits 1 with one line per name.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

from check_sources import FUNCTION, Sources, room_of
from checking import run

# A definition; what a declaration in advance (`struct Name;`) names is not one.
DEFINED = re.compile(
    r"^(?P<indent> *)(?:struct|class|enum class|enum|union)\s+"
    r"(?:\[\[\w+\]\]\s*|alignas\([^)]*\)\s*)?(?P<name>\w+)(?:<[^;{]*>)?(?:\s+final)?"
    r"\s*(?::[^;{:][^;{]*)?\{",
    re.MULTILINE,
)
ALIAS = re.compile(r"^(?P<indent> *)(?:__extension__ )?using (?P<name>\w+) =", re.MULTILINE)
# Headers that are a table: what it lists, one entry a source.
TABLES = {
    "lib/localize/causes/cause.h": "causes",
    "lib/report/page/read_parts.h": "reports that a page reads",
    "lib/report/to_answer/to_answer.h": "answers, one of each command",
    "lib/report/page/sections.h": "sections of a page",
    "lib/specification/primitives/families.h": "families of primitives",
}
OF_ANOTHER = re.compile(r"(?:_read|_write)?_json$|_source$")
ANONYMOUS = re.compile(r"^namespace \{\n.*?^\}  $", re.DOTALL | re.MULTILINE)


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


def has_header(path: str, sources: Sources) -> bool:
    stem = path.removesuffix(".cpp")
    of = OF_ANOTHER.sub("", stem)
    return any(f"{name}.h" in sources.code for name in (stem, of, f"{of}_json"))


def sources_without_header(sources: Sources) -> list[str]:
    found = []
    for path, code in sources.code.items():
        if not path.startswith("lib/") or not path.endswith(".cpp") or has_header(path, sources):
            continue
        for name in sorted(set(FUNCTION.findall(ANONYMOUS.sub("", code)))):
            homes = {home for home in sources.headers_of_name[name] if home.startswith("lib/")}
            homes = {home for home in homes if room_of(home) == room_of(path)}
            if homes and not homes & set(TABLES):
                found.append(f"{path}: {name} is declared in {', '.join(sorted(homes))}")
    return found


def violations(root: Path) -> list[str]:
    sources = Sources(root)
    types = {path: defined_types(code) for path, code in sources.code.items()}
    found = shared_public_names(types) + shared_names_of_rooms(types)
    found += sources_without_header(sources)
    found += [f"{table}: there is no such table" for table in TABLES if table not in sources.code]
    if sum(len(names) for names in types.values()) < 500:
        found.append(f"fewer than 500 types found: is {root} the repository?")
    return found


if __name__ == "__main__":
    sys.exit(run(violations, "names that are several types, or files without their header"))
