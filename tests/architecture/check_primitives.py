#!/usr/bin/env python3
"""A primitive is known by its family alone: all facts about it stand in its entry.

No source outside lib/specification/primitives that speaks of primitives

* has a string that is the name of one, or an enumerator that is named after one;
* looks at a primitive's name other than to print it;
* takes the function pointers of an entry for more than functions, by comparing them.

A fact that stands elsewhere is forgotten where a primitive is added, and a wrong bound lets faults
pass without a word. primitives_test.cpp looks for facts of entries that are a name in disguise.
Exits 1 with one line per violation.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from check_sources import Sources
from checking import run

FAMILIES = "lib/specification/primitives/"
CASES = "tests/specification/primitive_cases.json"
# A source that has a pointer to a primitive or looks one up. JSON of reports has words like "mean".
SPEAKS = re.compile(r"\bPrimitive\b|\bfind_primitive\b|(?:->|\.)primitive\b")
TEXT = re.compile(r'"([a-z_0-9]+)"')
ENUMERATOR = re.compile(r"\bk([A-Z]\w*)\b")
NAME = r"\bprimitive(?:->|\.)name\b"
# What compares a name, or looks it up among others.
COMPARED = re.compile(
    rf"{NAME}\s*(?:[=!<>]=|\.(?:starts_with|ends_with|find|compare|contains|substr)\()"
    rf"|[=!]=\s*[\w.>-]*{NAME}"
    rf"|\b(?:contains|count|find|at)\([\w.>-]*{NAME}\)"
)
POINTER = re.compile(
    r"\bprimitive(?:->|\.)(?:shape|evaluate|together|cut|work|terms)\s*[=!]=(?!\s*nullptr\b)"
)
COMMENT = re.compile(r"//[^\n]*")


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def names_of(root: Path) -> set[str]:
    """Every primitive has a case, or primitives_test.cpp fails."""
    return {case["node"][0] for case in json.loads((root / CASES).read_text())}


def problems_of(line: str, names: set[str]) -> list[str]:
    found = [f'names "{text}"' for text in TEXT.findall(line) if text in names]
    found += [f"names k{name}" for name in ENUMERATOR.findall(line) if snake(name) in names]
    if COMPARED.search(line):
        found.append("compares the name of a primitive")
    if POINTER.search(line):
        found.append("compares a function of an entry")
    return found


def violations(root: Path) -> list[str]:
    names = names_of(root)
    found = [] if len(names) > 50 else [f"only {len(names)} primitives in {CASES}"]
    spoken = 0
    for path, text in Sources(root).texts.items():
        code = COMMENT.sub("", text)
        if path.startswith(FAMILIES) or not SPEAKS.search(code):
            continue
        spoken += 1
        for number, line in enumerate(code.splitlines(), 1):
            found += [f"{path}:{number}: {problem}" for problem in problems_of(line, names)]
    if spoken < 5:
        found.append(f"only {spoken} sources speak of primitives: is {root} the repository?")
    return found


if __name__ == "__main__":
    sys.exit(run(violations, "facts about primitives outside their entries"))
