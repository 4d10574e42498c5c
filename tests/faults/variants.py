"""Variants of a lie: a fault of a run, and what is done to hide it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from faults_of_step import EVERY_FAULT, Fault
from lies_of_specification import Lie, Nodes, behind_all
from small_step import Key, Run


@dataclass(frozen=True)
class Variant:
    name: str
    fault: Fault
    lie: Lie


def both(*lies: Lie) -> Lie:
    def lie(run: Run) -> None:
        for one in lies:
            one(run)

    return lie


def nothing(_: Run) -> None:
    """The run alone: a rule of old made it hold."""


LARGE = (1e10, 1e30, 1e200)


def amounts(make: Callable[[float], Nodes]) -> list[Variant]:
    return each({f"{amount:g}": behind_all(make(amount)) for amount in LARGE}, *EVERY_FAULT)


def at_spots(name: str, lie: Callable[[Key], Lie], *faults: Fault) -> Iterator[Variant]:
    for fault in faults or EVERY_FAULT:
        (key,) = fault.changes
        yield Variant(f"{name}, {fault.name}", fault, lie(key))


def each(lies: dict[str, Lie], *faults: Fault) -> list[Variant]:
    return [
        Variant(f"{name}, {fault.name}", fault, lie)
        for name, lie in lies.items()
        for fault in faults
    ]
