"""Grades what a reader answered, screen by screen, and adds it up as a table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from power.tables import table

from screens.key import INPUT_DATA, PHASES, Right

KNOWN_PHASES = {*PHASES.values(), INPUT_DATA}
AXIS_NAMES = {"dp", "tp", "pp", "cp", "ep", "edp"}


class AnswerError(ValueError):
    """An answer that is not what the instructions ask for."""


@dataclass(frozen=True)
class Answer:
    phase: str
    who: str
    place: tuple[str, ...]

    @classmethod
    def from_json(cls, number: str, told: Any) -> Answer:
        if not isinstance(told, dict) or set(told) != {"phase", "who", "place"}:
            raise AnswerError(f"{number}: an entry has phase, who and place, and nothing else")
        if told["phase"] not in KNOWN_PHASES:
            raise AnswerError(f"{number}: phase {told['phase']!r} is none of the instructions'")
        place = [told["place"]] if isinstance(told["place"], str) else told["place"]
        return cls(told["phase"], str(told["who"]), tuple(str(name).strip() for name in place))


@dataclass(frozen=True)
class Marks:
    """What is right about an entry. wrong_place: a name of it is of something else."""

    phase: bool
    who: bool
    place: bool
    wrong_place: bool

    @property
    def right(self) -> bool:
        return self.phase and self.who and self.place


@dataclass(frozen=True)
class Grade:
    """entries: each against the fault that it meets best. named: how many faults are all right."""

    entries: tuple[Marks, ...]
    named: int
    faults: int

    @property
    def right(self) -> bool:
        return bool(self.entries) and all(marks.right for marks in self.entries)

    @property
    def points(self) -> int:
        """A wrong place counts double: it takes away a point where nothing said gives none."""
        if self.right:
            return 1
        return -1 if any(marks.wrong_place for marks in self.entries) else 0


def grade(told: Iterable[Answer], faults: Iterable[Right], names: Iterable[str]) -> Grade:
    """names: of all tensors and modules of the run."""
    rights, known = list(faults), list(names)
    entries: list[Marks] = []
    met: set[int] = set()
    for answer in told:
        marks = [marked(answer, right, known) for right in rights]
        best = max(
            range(len(marks)), key=lambda i: (marks[i].right, marks[i].place, marks[i].phase)
        )
        wrong = all(mark.wrong_place for mark in marks)
        entries.append(Marks(marks[best].phase, marks[best].who, marks[best].place, wrong))
        if marks[best].right:
            met.add(best)
    return Grade(tuple(entries), len(met), len(rights))


def marked(answer: Answer, right: Right, names: Iterable[str]) -> Marks:
    places = [_place(item, right, names) for item in answer.place]
    return Marks(
        answer.phase in right.phases,
        _is_right_who(answer.who, right),
        bool(places) and all(place == "right" for place in places),
        any(place == "wrong" for place in places),
    )


def _place(item: str, right: Right, names: Iterable[str]) -> str:
    """A pattern is right if all that it stands for is; a module around the right one is vague."""
    stands_for = [name for name in names if fnmatchcase(name, item)] or [item]
    if right.covers(item) or all(right.covers(name) for name in stands_for):
        return "right"
    around = any(name.startswith(f"{item}.") and right.covers(name) for name in names)
    return "vague" if around or any(right.covers(name) for name in stands_for) else "wrong"


def _is_right_who(who: str, right: Right) -> bool:
    """One of axis and ranks is enough. `dp 1` is a place on an axis."""
    axes = set(re.findall(r"[a-z]+", who.lower())) & AXIS_NAMES
    if axes:
        return axes <= set(right.axes)
    if re.search(r"\b(every|all)\b", who.lower()):
        return tuple(range(right.of_ranks)) in right.ranks
    return tuple(sorted({int(digits) for digits in re.findall(r"\d+", who)})) in right.ranks


def results_table(
    grades: Mapping[str, Grade], groups: Mapping[str, str], cases: Mapping[str, str]
) -> list[str]:
    """groups, cases: of each number."""
    rows = []
    for group in dict.fromkeys(groups.values()):
        mine = [grades[number] for number in grades if groups[number] == group]
        rows.append([group, len(mine), *_sums(mine)])
    every = list(grades.values())
    rows.append(["all", len(every), *_sums(every)])
    lines = [table(HEAD, rows), ""]
    for number, one in sorted(grades.items()):
        if not one.right:
            lines.append(f"{number} {cases[number]}: {_lacking(one)}")
    return lines


HEAD = ("screens", "of", "right", "phase", "axis or ranks", "place", "wrong places", "points",
        "faults named", "of")  # fmt: skip


def _sums(grades: list[Grade]) -> list[int]:
    def count(member: str) -> int:
        return sum(
            bool(one.entries) and all(getattr(marks, member) for marks in one.entries)
            for one in grades
        )

    wrong = sum(any(marks.wrong_place for marks in one.entries) for one in grades)
    right = sum(one.right for one in grades)
    sums = [right, count("phase"), count("who"), count("place"), wrong]
    sums.append(sum(one.points for one in grades))
    return [*sums, sum(one.named for one in grades), sum(one.faults for one in grades)]


def _lacking(one: Grade) -> str:
    if not one.entries:
        return "nothing answered"
    said = []
    for marks in one.entries:
        lacks = [name for name in ("phase", "who", "place") if not getattr(marks, name)]
        if marks.wrong_place:
            lacks[-1] = "wrong place"
        said.append(", ".join(lacks) + " not right" if lacks else "right")
    return "; ".join(said)
