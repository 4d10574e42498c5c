#!/usr/bin/env python3
"""A check that cannot fail is no check: plants facts about primitives outside their entries."""

from __future__ import annotations

import shutil
import sys

from check_primitives import CASES, violations
from checking import ROOT, copy_of_sources, not_found, plant, verdict

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


def main() -> int:
    with copy_of_sources() as copy:
        (copy / CASES).parent.mkdir(parents=True)
        shutil.copy(ROOT / CASES, copy / CASES)
        for name, text in HARMLESS:
            plant(copy / name, "\nnamespace {\n", f"{text}\n")
        clean = violations(copy)
        for name, text, _ in PLANTED:
            plant(copy / name, "\nnamespace {\n", f"{text}\n")
        found = violations(copy)
    return verdict(clean, not_found(PLANTED, found))


if __name__ == "__main__":
    sys.exit(main())
