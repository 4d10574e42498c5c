"""What a rank could not record, and mistakes in the calls of a training loop.

Nothing here throws: a trace is not worth a training job. Each problem is printed once, kept for the
manifest's `run.incomplete`, and `close()` prints the layouts that would solve it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ttrace_torch.base.names import matching
from ttrace_torch.base.process import say, settle
from ttrace_torch.errors import Unplaced

# Longest pattern that a manifest may hold.
_LONGEST = 1024

# Sentences that differ by names and numbers alone are printed so often.
_SPELLED = 3


class Problems:
    """The problems of one rank."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._said: set[str] = set()
        # Sentence without its names and numbers -> how often it was to be printed.
        self._alike: dict[str, int] = {}
        # In the order of discovery, like the next two.
        self._texts: dict[str, None] = {}
        # (glob over ids of tensors, reason).
        self._entries: dict[tuple[str, str], None] = {}
        # Module -> "input" or "output" -> index of the tensor -> guessed placements.
        self._unplaced: dict[str, dict[str, dict[int, str]]] = {}

    def advise(self, text: str) -> None:
        """Prints a sentence on stderr: the first rank that has it, once, and the first of those
        that say the same of other modules."""
        if text in self._said:
            return
        self._said.add(text)
        # Names have dots or digits, or stand before a colon.
        alike = re.sub(r"\S*[\d._]\S*|^\S+:", "", text)
        count = self._alike[alike] = self._alike.get(alike, 0) + 1
        if count > _SPELLED:
            return
        rank = str(self._rank)
        if settle(f"said/{text}", rank)[0] == rank:
            last = " (others like it are not printed)" if count == _SPELLED else ""
            say(f"rank {rank}: {text}{last}")

    def say_once(self, text: str) -> None:
        """Keeps a problem that leaves nothing out, and prints it once."""
        self._texts.setdefault(text)
        self.advise(text)

    def note(self, tensors: str, reason: str) -> None:
        """Keeps for the manifest that the tensors matched by a glob over ids are not recorded."""
        if len(tensors.encode()) > _LONGEST:
            tensors = "*"
        self._entries.setdefault((tensors, reason))
        self._texts.setdefault(f"{tensors}: {reason}")

    def left_out(self, kind: str, name: str, reason: str) -> None:
        """Keeps that tensors of that kind and name are not recorded; prints the first reason."""
        first = not self._entries
        self.note(f"*/*/{kind}/{name}/*/*", reason)
        if first:
            self.advise(
                f"{name} · {kind} is left out: {reason}; training goes on, and close() lists all"
            )

    def unplaced(self, kind: str, name: str, module: str, index: int, why: Unplaced) -> None:
        """Keeps that the `index`-th value of a module, or its gradient, cannot be placed."""
        self.left_out(kind, name, str(why))
        side = "input" if kind == "input" else "output"
        self._unplaced.setdefault(module, {}).setdefault(side, {})[index] = why.placements

    def mistake(self, step: int | None, text: str) -> None:
        """Prints a mistake in the training loop, and keeps it for the manifest."""
        if step is None:
            self.say_once(text)
        else:
            self.advise(text)
            self.note(f"{step}/*/*/*/*/*", text)

    def texts(self) -> list[str]:
        """All problems, in the order of discovery."""
        return list(self._texts)

    def entries(self) -> list[dict[str, Any]]:
        """The manifest's `run.incomplete`, without duplicates, sorted."""
        return [
            {"tensors": tensors, "ranks": [self._rank], "reason": reason}
            for tensors, reason in sorted(self._entries)
        ]

    def layouts(self, modules: Iterable[str]) -> list[str]:
        """Lines for `trace(layouts=[...])` that place what could not be placed.

        modules: the names of all modules; layers with equal lines share one.
        """
        lines: dict[str, list[str]] = {}
        for module, sides in self._unplaced.items():
            fields = "".join(f", {side}={_listed(sides[side])}" for side in sorted(sides))
            lines.setdefault(fields, []).append(module)
        known = list(modules)
        found = []
        for fields, names in lines.items():
            for pattern in patterns_of(names, known):
                found.append(f'tt.Layout("{pattern}"{fields}),')
        return found


def _listed(by_index: Mapping[int, str]) -> str:
    """The placements of some of a module's tensors, as the argument of a Layout."""
    if set(by_index) == {0}:
        return by_index[0]
    return "[" + ", ".join(by_index.get(i, "None") for i in range(max(by_index) + 1)) + "]"


def patterns_of(names: list[str], known: list[str]) -> list[str]:
    """Globs that match these of the known names and no other."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(re.sub(r"(?<![^.])\d+(?![^.])", "*", name), []).append(name)
    found = []
    for pattern, members in groups.items():
        exact = set(matching(pattern, known)) == set(members)
        found.extend([pattern] if exact else members)
    return found
