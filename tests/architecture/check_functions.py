#!/usr/bin/env python3
"""No source calls exp, log, sin, pow and their like of the C library.

Their last bits depend on the library's version and on the processor, and a report must not:
lib/base/functions.h has our own. Square roots, roundings, remainders and fused multiply-adds are
exact or rounded in one way everywhere, and may be the library's.

Exits 1 with one line per violation.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from checking import run

FUNCTIONS = """acos acosh asin asinh atan atan2 atanh cbrt cos cosh erf erfc exp exp10 exp2 expm1
  hypot lgamma log log10 log1p log2 pow sin sincos sinh tan tanh tgamma""".split()
NAME = rf"(?:__builtin_)?(?:{'|'.join(FUNCTIONS)})(?:f|l|_r|f_r|l_r)?"
# Those of std:: by name, since a pointer to one is no better than a call. The others where they
# are called: not as a member, nor in a namespace of ours, nor where one of that name is declared.
OF_THE_LIBRARY = re.compile(
    rf"\bstd::(?P<std>{NAME})\b|(?<![\w>\])])\s*::(?P<of_c>{NAME})\s*\("
    rf"|(?<![\w.:>])(?P<bare>{NAME})\s*\("
)
DECLARED = re.compile(r"(?:[\w:>]|[&*])\s+$")
KEYWORD = re.compile(r"\b(?:return|else|case|throw|do)\s+$")
COMMENT_OR_TEXT = re.compile(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"')


def names_in(line: str) -> list[str]:
    code = COMMENT_OR_TEXT.sub(lambda found: '""' if found[0][0] == '"' else "", line)
    found = []
    for match in OF_THE_LIBRARY.finditer(code):
        before = code[: match.start()]
        declared = DECLARED.search(before) and not KEYWORD.search(before)
        if match["bare"] is None or not declared:
            found.append(match["std"] or match["of_c"] or match["bare"])
    return found


def violations_in(path: Path, root: Path) -> list[str]:
    return [
        f"{path.relative_to(root)}:{number}: {name} of the C library; base/functions.h has our own"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        for name in names_in(line)
    ]


def violations(root: Path) -> list[str]:
    sources = [
        path
        for top in ("apps", "lib")
        for path in sorted((root / top).rglob("*"))
        if path.suffix in {".h", ".cpp", ".cu", ".cuh"}
    ]
    if len(sources) < 50:
        return [f"only {len(sources)} source files found: is {root} the repository?"]
    return [line for path in sources for line in violations_in(path, root)]


if __name__ == "__main__":
    sys.exit(run(violations, "calls of the C library's functions of numbers"))
