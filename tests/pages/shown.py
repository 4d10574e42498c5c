"""Whether a page shows what a command prints."""

from __future__ import annotations

import re

# What depends on the machine alone.
OF_THE_MACHINE = [
    (re.compile(r"cpu x86-64[-v\d]*, \d+ threads?"), "cpu, threads"),
    (re.compile(r"\d[\d.]* s$"), "seconds"),
]


def _plain(line: str) -> str:
    for pattern, name in OF_THE_MACHINE:
        line = pattern.sub(name, line)
    return line.rstrip()


def _same(shown: str, printed: str) -> bool:
    if shown.endswith(" ..."):
        return printed.startswith(shown.removesuffix("..."))
    return shown == printed


def missing(shown: list[str], printed: str) -> str | None:
    """The first line of `shown` that `printed` lacks at its place; None if it lacks none.

    A line "..." stands for any number of lines, one that ends in " ..." for the rest of a line.
    Without "..." the page ends where the command ends, or at an empty line, or behind the first."""
    lines = [_plain(line) for line in printed.splitlines()]
    wanted = [_plain(line) for line in shown]
    while wanted and not wanted[-1]:
        wanted.pop()
    if not wanted:
        return None
    place = 0
    anywhere = False
    for line in wanted:
        if line.strip() == "...":
            anywhere = True
            continue
        found = place
        while anywhere and found < len(lines) and not _same(line, lines[found]):
            found += 1
        if found >= len(lines) or not _same(line, lines[found]):
            return line
        place, anywhere = found + 1, False
    if anywhere or place in (1, len(lines)) or not lines[place]:
        return None
    return f"(and then: {lines[place]})"
