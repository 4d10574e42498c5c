#!/usr/bin/env python3
"""A check that cannot fail is no check: plants types of one name, and looks for them."""

from __future__ import annotations

import sys

from check_names import violations
from checking import copy_of_sources, plant, verdict

# File -> what is replaced in it, by what, and the name that must be found there.
PLANTED = {
    # The same name in the headers of two rooms, as a class and as an alias.
    "lib/judge/outcome.h": ("namespace ttrace::judge {\n", "struct Grid {\n};\n", "Grid"),
    "lib/mapping/name_match.h": (
        "namespace ttrace::mapping {\n",
        "using Manifest = std::array<int, 3>;\n",
        "Manifest",
    ),
    # A template with a base over two lines, and one that the headers of the room have.
    "lib/trace/key.h": (
        "namespace ttrace::trace {\n",
        "template <typename T>\nclass RunCursor final\n    : public Base<T> {\n};\n",
        "RunCursor",
    ),
    "lib/localize/frontier.cpp": ("namespace {\n", "struct FlowNode {\n};\n", "FlowNode"),
    # Inside a function.
    "lib/engine/lint_trace.cpp": (
        "namespace {\n",
        "void f() {\n  struct CompareRun {\n  };\n}\n",
        "CompareRun",
    ),
}
# A source whose header has another name: what is declared where.
MISPLACED = (
    "lib/judge/slices.h",
    "lib/judge/verdicts.h",
    "lib/judge/slices.cpp: judge_slices",
)
# A declaration in advance and a name of another room's source are no second type.
HARMLESS = {
    "lib/report/depth.h": ("namespace ttrace::report {\n", "struct RowSums;\n"),
    "lib/mapping/name_match.cpp": ("namespace {\n", "struct CompareRun {\n};\n"),
}


def main() -> int:
    with copy_of_sources() as copy:
        for name, (after, text) in HARMLESS.items():
            plant(copy / name, after, text)
        clean = violations(copy)
        for name, (after, text, _) in PLANTED.items():
            plant(copy / name, after, text)
        header, elsewhere, misplaced = MISPLACED
        (copy / header).rename(copy / elsewhere)
        found = violations(copy)
    missed: list[object] = [
        name
        for name, (_, _, wanted) in PLANTED.items()
        if not any(f"{wanted} is a type" in line and name in line for line in found)
    ]
    if not any(line.startswith(misplaced) for line in found):
        missed.append(misplaced)
    return verdict(clean, missed)


if __name__ == "__main__":
    sys.exit(main())
