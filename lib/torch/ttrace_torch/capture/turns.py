"""The global numbers of the micro-batches that a rank runs in a step, in their order.

Data-parallel rank d of D has the numbers d · count + n if the batch is dealt out in blocks,
n · D + d if in turn. In blocks, `count` is known when the step ends; until then, all ranks but the
first use provisional numbers.
"""

from __future__ import annotations

from ttrace_torch.errors import TraceError

# Larger than all numbers that a job gives.
_PROVISIONAL = 1 << 30


class Turns:
    """The micro-batches of one rank in one step.

    place: this rank's number among the data-parallel ranks, and their number.
    interleaved: whether the ranks take micro-batches in turn.
    changed: whether the run is perturbed or rewritten, which needs final numbers at once.
    """

    def __init__(
        self, place: tuple[int, int] = (0, 1), interleaved: bool = False, changed: bool = False
    ) -> None:
        self._rank, self._ranks = place
        self._interleaved = interleaved
        self._changed = changed
        self._count = 0
        # How many the rank is expected to run: final numbers are given by it.
        self.expected = 1

    def share(self) -> None:
        """Notes that all data-parallel ranks hold parts of each micro-batch."""
        self._rank, self._ranks = 0, 1

    def number(self, turn: int) -> int:
        """The number of the rank's micro-batch `turn`, counted from 0; it may be provisional.

        Throws TraceError where it must be final and is not known.
        """
        self._count = max(self._count, turn + 1)
        if self._interleaved:
            return turn * self._ranks + self._rank
        if self._provisional:
            return _PROVISIONAL + turn
        if self._rank and turn >= self.expected:
            raise TraceError(
                "a noise run or rewritten run on several data-parallel ranks with several "
                "micro-batches on each needs `with tracer.microbatch(n, of=count):`"
            )
        return self._rank * self.expected + turn

    @property
    def first(self) -> int:
        """A number for tensors that come before the first micro-batch."""
        return self._rank

    def final(self) -> dict[int, int]:
        """Provisional number -> final number, of a step that has ended."""
        if not self._provisional:
            return {}
        first = self._rank * self._count
        return {_PROVISIONAL + turn: first + turn for turn in range(self._count)}

    @property
    def _provisional(self) -> bool:
        return self._rank > 0 and not self._interleaved and not self._changed
