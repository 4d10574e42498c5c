"""The fifty runs whose first screens are read: bugs of the gallery, pairs of them, drawn faults."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from gallery.config import Config
from gallery.expected import EXPECTED
from power.two_bugs import pairs

from screens.faults import Fault, drawn
from screens.key import Right, right_of_bug, right_of_fault

PAIRS = FAULTS = 10


@dataclass(frozen=True)
class Case:
    """config: of the faulty run."""

    group: str
    name: str
    config: Config
    rights: tuple[tuple[tuple[str, ...], Right], ...]  # of each fault: its kinds, what is right
    fault: Fault | None = None

    @property
    def healthy(self) -> Config:
        return dataclasses.replace(self.config, bug=())

    def planted(self) -> AbstractContextManager[None]:
        return self.fault.planted() if self.fault else nullcontext()


def cases(seed: int) -> Iterator[Case]:
    """In an order that is not shuffled; the seed draws pairs and faults."""
    for bug, expected in EXPECTED.items():
        yield _with_bugs("a bug", expected.config, (bug,))
    for first, second, config in random.Random(seed).sample(pairs(), PAIRS):
        yield _with_bugs("two bugs", config, (first, second))
    for fault in drawn(seed, FAULTS):
        who = f" over {fault.axis}" if fault.axis else ""
        name = f"{fault.mechanism} {fault.name}{who} ×{fault.factor:g}"
        yield Case("a drawn fault", name, fault.config, (right_of_fault(fault),), fault)


def _with_bugs(group: str, config: Config, bugs: tuple[str, ...]) -> Case:
    rights = tuple(right_of_bug(bug, config.ranks) for bug in bugs)
    return Case(group, " ".join(bugs), dataclasses.replace(config, bug=bugs), rights)
