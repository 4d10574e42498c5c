#!/usr/bin/env python3
"""A check that cannot fail is no check: plants types of one name, and looks for them."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from check_names import violations

# File -> what is replaced in it, by what, and the name that must be found there.
PLANTED = {
    # The same name in the headers of two rooms, as a class and as an alias.
    "lib/judge/outcome.h": ("namespace ttrace::judge {\n", "struct Grid {\n};\n", "Grid"),
    "lib/synth/random.h": (
        "namespace ttrace::synth {\n",
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
MISPLACED = ("lib/judge/slices.h", "lib/judge/slice_judging.h", "lib/judge/slices.cpp: judge_slices")
# A declaration in advance and a name of another room's source are no second type.
HARMLESS = {
    "lib/report/depth.h": ("namespace ttrace::report {\n", "struct RowSums;\n"),
    "lib/synth/fault.cpp": ("namespace {\n", "struct CompareRun {\n};\n"),
}


def insert(copy: Path, name: str, after: str, text: str) -> None:
    path = copy / name
    code = path.read_text()
    if after not in code:
        sys.exit(f"{name} has no {after!r} to plant at")
    path.write_text(code.replace(after, after + text, 1))


def main() -> int:
    root = Path(__file__).resolve().parents[2]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for top in ("apps", "lib"):
            shutil.copytree(root / top, copy / top, ignore=shutil.ignore_patterns("__pycache__"))
        for name, (after, text) in HARMLESS.items():
            insert(copy, name, after, text)
        clean = violations(copy)
        for name, (after, text, _) in PLANTED.items():
            insert(copy, name, after, text)
        header, elsewhere, misplaced = MISPLACED
        (copy / header).rename(copy / elsewhere)
        found = violations(copy)
    missed = [
        name
        for name, (_, _, wanted) in PLANTED.items()
        if not any(f"{wanted} is a type" in line and name in line for line in found)
    ]
    if not any(line.startswith(misplaced) for line in found):
        missed.append(misplaced)
    print(f"{len(clean)} names before planting, missed: {missed or 'none'}")
    for line in clean:
        print(line)
    return 1 if clean or missed else 0


if __name__ == "__main__":
    sys.exit(main())
