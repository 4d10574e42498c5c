"""What the tables of RESULTS.md are computed with: quantiles, numbers as text, markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def smallest_for(sizes: Sequence[float | None], share: float) -> float | None:
    """The size at which that share of the tensors is caught; a size of None is never."""
    if not sizes:
        return None
    needed = math.ceil(share * len(sizes) - 1e-9)
    known = sorted(math.inf if size is None else size for size in sizes)
    found = known[max(needed, 1) - 1]
    return found if math.isfinite(found) else None


def size(value: float | None) -> str:
    """A relative size: 1.3e-06, or 4.2 %, or `never`."""
    if value is None:
        return "never"
    return f"{value:.1e}" if value < 1e-3 else f"{100 * value:.2g} %"


def share(value: float) -> str:
    """Of a limit; what is within it is not rounded up to it."""
    return f"{value:.2f}" if not 0.995 <= value < 1 else f"{math.floor(1e5 * value) / 1e5:.5f}"


def percent(count: int, total: int) -> str:
    return f"{100 * count / total:.1f} %" if total else "–"


def three(sizes: Sequence[float | None]) -> list[str]:
    """Caught in half, nine of ten, and all of the tensors."""
    return [size(smallest_for(sizes, part)) if sizes else "–" for part in (0.5, 0.9, 1.0)]
