"""Which steps are recorded."""

from __future__ import annotations

from collections.abc import Container

from ttrace_torch.failure import say


class Steps:
    """The steps that are recorded."""

    def takes(self, number: int) -> bool:
        """Whether step `number`, which begins, is recorded. All are here."""
        return True


class TheseSteps(Steps):
    """Steps that were named."""

    def __init__(self, numbers: Container[int]) -> None:
        self._numbers = numbers

    def takes(self, number: int) -> bool:
        """Whether it was named."""
        return number in self._numbers


class FirstStep(Steps):
    """The first step met alone: a variable that was forgotten must not fill a disk."""

    def __init__(self, out: str) -> None:
        self._out = out
        self._first: int | None = None
        self.announces = True

    def takes(self, number: int) -> bool:
        """Whether it is the first; says so once."""
        if self._first is None:
            self._first = number
            if self.announces:
                say(
                    f"records step {number} alone into {self._out}, since no steps were named; "
                    "TTRACE_STEPS or steps= names others, such as 0,10-12"
                )
        return number == self._first
