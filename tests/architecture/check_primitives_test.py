#!/usr/bin/env python3
"""A check that cannot fail is no check: plants facts about primitives outside their entries."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from check_primitives import CASES, violations

# File, what is planted behind its namespace, and what the check says of it.
PLANTED = [
    (
        "lib/specification/describe.cpp",
        'bool f(const Primitive& p) { return p.name == "matmul"; }',
        'names "matmul"',
    ),
    (
        "lib/specification/evaluate/probes.cpp",
        'const std::set<std::string_view> kFast{"exp", "log"};',
        'names "log"',
    ),
    ("lib/specification/evaluate/sample.cpp", "enum class Way { kEmbedding };", "kEmbedding"),
    (
        "lib/audit/expressions.cpp",
        "bool f(const Node& n) { return n.primitive->name.starts_with(kPrefix); }",
        "compares the name",
    ),
    (
        "lib/specification/evaluate/equal_scores.cpp",
        "bool f(const Node& n) { return kSet.contains(n.primitive->name); }",
        "compares the name",
    ),
    (
        "lib/specification/evaluate/evaluate.cpp",
        "bool f(const Node& n) { return n.primitive->shape == like_first_rule; }",
        "compares a function",
    ),
]
# Words of reports, comments, and whether an entry has a function.
HARMLESS = [
    ("lib/report/screen.cpp", 'const char* const kWord = "mean";'),
    ("lib/specification/evaluate/bound.cpp", '// As primitive "matmul" does.'),
    (
        "lib/specification/evaluate/judge_expression.cpp",
        "bool f(const Node& n) { return n.primitive->together != nullptr; }",
    ),
]


def plant(copy: Path, name: str, text: str) -> None:
    path = copy / name
    code = path.read_text()
    if "\nnamespace {\n" not in code:
        sys.exit(f"{name} has no place to plant at")
    path.write_text(code.replace("\nnamespace {\n", f"\nnamespace {{\n{text}\n", 1))


def main() -> int:
    root = Path(__file__).resolve().parents[2]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for top in ("apps", "lib"):
            shutil.copytree(root / top, copy / top, ignore=shutil.ignore_patterns("__pycache__"))
        (copy / CASES).parent.mkdir(parents=True)
        shutil.copy(root / CASES, copy / CASES)
        for name, text in HARMLESS:
            plant(copy, name, text)
        clean = violations(copy)
        for name, text, _ in PLANTED:
            plant(copy, name, text)
        found = violations(copy)
    missed = [
        (name, message)
        for name, _, message in PLANTED
        if not any(message in line and line.startswith(name) for line in found)
    ]
    print(f"{len(clean)} facts before planting, missed: {missed or 'none'}")
    for line in clean:
        print(line)
    return 1 if clean or missed else 0


if __name__ == "__main__":
    sys.exit(main())
