#!/usr/bin/env python3
"""A check that cannot fail is no check: plants pieces of sentences, and what is none."""

from __future__ import annotations

import sys

from check_sentences import ROOMS, violations
from checking import copy_of_sources, not_found, plant, verdict

CAUSES = "lib/localize/causes/"
NAMESPACE = {room: f"\nnamespace ttrace::{room} {{\n" for room in ROOMS}
# File, what is planted behind its namespace, and what the check says of it.
PLANTED = [
    (
        "lib/localize/place.cpp",
        'std::string f(int n) { return base::concat(n, " of the ranks differ"); }',
        '" of the ranks differ" is no template',
    ),
    # What is joined inside of a template is no template.
    (
        CAUSES + "zeroed.cpp",
        "std::string f(int n) {\n"
        '  return base::render({base::concat("the first of ", n, "{rank}"), {}});\n}',
        '"the first of " is no template',
    ),
    # Nor is a value.
    (
        CAUSES + "offset.cpp",
        'std::string f() { return base::render({"{why}", {{"why", "it is all wrong"}}}); }',
        '"it is all wrong" is no template',
    ),
    (
        CAUSES + "scaled.cpp",
        'Cause f() { return {"scaled", "", "two times as large", 0}; }',
        '"two times as large" is no template',
    ),
    # A whole template, and not a piece that is put behind another one.
    (
        CAUSES + "shifted.cpp",
        'std::string f(std::string t) { return t + base::render({" on all of the ranks", {}}); }',
        '" on all of the ranks" is a piece',
    ),
    (
        CAUSES + "stale.cpp",
        'std::string f() {\n  return "the copies "  // of dp\n      "of all ranks";\n}',
        '"the copies of all ranks" is no template',
    ),
    (
        "lib/localize/phase.cpp",
        'constexpr std::string_view kWhy = "before the first step";',
        '"before the first step" is no template',
    ),
    # A constant that is rendered in one place, and a piece in another.
    (
        "lib/localize/explain.cpp",
        'constexpr std::string_view kWhen = "before the first step";\n'
        "std::string f() { return base::render({kWhen, {}}); }\n"
        'std::string g() { return concat(kWhen, ", 0"); }',
        '"before the first step" is no template',
    ),
    # The function does not return a message.
    (
        "lib/localize/isolation.cpp",
        'std::vector<std::string> f() { return {"it is all wrong"}; }',
        '"it is all wrong" is no template',
    ),
    (
        "lib/localize/frontier.cpp",
        'std::string f() { return R"({"why": "it is all wrong"})"; }',
        "it is all wrong",
    ),
    (
        "lib/audit/verdict.cpp",
        'std::string f(int n) { return base::concat("no check of ", n, " tensors holds"); }',
        '"no check of " is no template',
    ),
    (
        "lib/comparison/verdict.cpp",
        'void f(std::string& why) { why += ", and is not like the other"; }',
        '", and is not like the other" is no template',
    ),
    (
        "lib/specification/describe.cpp",
        'std::string f(bool one) { return one ? "the sum of it" : ""; }',
        '"the sum of it" is no template',
    ),
    # A name is the whole literal.
    (
        "lib/localize/second_suspects.cpp",
        'std::string f(int n) { return base::concat("sum of raw gradients of ", n); }',
        '"sum of raw gradients of " is no template',
    ),
    (
        "lib/answer/verdict.cpp",
        'void f() { if (false) { warn("this is an error"); } }',
        '"this is an error" is no template',
    ),
]
# Templates, errors, names, comments and short texts.
HARMLESS = [
    (
        CAUSES + "local_norm.cpp",
        "base::Message f(bool one) {\n"
        '  return {one ? "it is the only one" : "it is one of {count}", {}};\n}',
    ),
    (
        CAUSES + "lower_precision.cpp",
        'Cause f() { return answer::cause_of("x", "", {"it is of {type}, all of it", {}}, 0); }',
    ),
    (
        "lib/localize/swapped_runs.cpp",
        'void f() { throw base::internal_error("these runs have ", 2, " sides of one"); }',
    ),
    (
        "lib/localize/growth_without_noise.cpp",
        '// Says "all of it is zero" of nothing.\n'
        "constexpr std::uint64_t kMost = 1'000;\n"
        'const char* const kWord = "mask_or_rows of two";\n'
        'bool f(const answer::AuditCheck& c) { return c.operation == "sum of raw gradients"; }',
    ),
    (
        "lib/localize/one_sided.cpp",
        'constexpr std::string_view kAlone = "only this run has it";\n'
        "std::string f() { return base::render({kAlone, {}}); }",
    ),
]


def main() -> int:
    with copy_of_sources() as copy:
        for name, text in HARMLESS:
            plant(copy / name, NAMESPACE[name.split("/")[1]], f"{text}\n")
        clean = violations(copy)
        for name, text, _ in PLANTED:
            plant(copy / name, NAMESPACE[name.split("/")[1]], f"{text}\n")
        found = violations(copy)
    return verdict(clean, not_found(PLANTED, found))


if __name__ == "__main__":
    sys.exit(main())
