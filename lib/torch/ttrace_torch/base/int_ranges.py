"""Sets of ints as people write them for steps and ranks: "0,5,10-12", "100-"."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from itertools import chain

from ttrace_torch.errors import TraceError

# Larger than any step. A range of this many takes no memory.
_END = 1 << 62


class IntRanges(Container[int]):
    """A set of ints, made of ranges."""

    def __init__(self, ranges: Iterable[range]) -> None:
        self.ranges = list(ranges)

    def __contains__(self, number: object) -> bool:
        return any(number in part for part in self.ranges)

    def listed(self) -> list[int]:
        """All ints, sorted. Throws TraceError for an open end."""
        if any(part.stop >= _END for part in self.ranges):
            raise TraceError("ranks: a range has no end; give both, for example 8-15")
        return sorted(set(chain.from_iterable(self.ranges)))


def int_ranges(value: str | int | Iterable[int], what: str) -> IntRanges:
    """Parses one int, several, or a text of ints and ranges separated by commas.

    Throws TraceError that begins with `what`, the name of the argument or variable.
    """
    if isinstance(value, int):
        value = [value]
    if isinstance(value, str):
        return IntRanges(_range(part.strip(), value, what) for part in value.split(","))
    numbers = list(value)
    if not numbers or not all(type(number) is int and number >= 0 for number in numbers):
        raise TraceError(f"{what}{numbers!r}: give numbers from 0 on, or a text such as '0,10-12'")
    return IntRanges(range(number, number + 1) for number in numbers)


def _range(part: str, text: str, what: str) -> range:
    match = re.fullmatch(r"(\d+)(\s*-\s*(\d*))?", part)
    if match:
        first = int(match[1])
        last = first if match[2] is None else int(match[3]) if match[3] else _END
        if last >= first:
            return range(first, last + 1)
    raise TraceError(
        f"{what}{text!r}: {part!r} is neither a number nor a range; say for example 0,10-12"
    )
