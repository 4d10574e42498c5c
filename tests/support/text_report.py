"""The text report of `ttrace compare`, however wide the terminal is that it was folded for."""

from __future__ import annotations

LABEL, TEXT = 5, 14  # columns at which a line of evidence, and what it says, begin


def answer(text: str) -> str:
    """The first line, unfolded."""
    return " ".join(text.split("\n\n", 1)[0].split())


def evidence(text: str) -> dict[str, str]:
    """Label -> what it says, of the finding that is shown in full; the first of each label."""
    found: dict[str, str] = {}
    label = ""
    for line in text.splitlines():
        if line.startswith(" " * TEXT) and label:
            found[label] += " " + line.strip()
        elif line.startswith(" " * LABEL) and line[LABEL : LABEL + 1].strip():
            name, _, said = line.strip().partition(" ")
            label = name if name not in found else ""
            found.setdefault(name, said.strip())
        else:
            label = ""
    return found
