"""The last line of a traced job: what was recorded, what it cost, and what to type next."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ttrace_torch.write.done import is_awaited
from ttrace_torch.write.kind import TraceKind


def last_line(
    path: Path, kind: TraceKind, steps: Sequence[int], tensors: int, size: int, cost: str
) -> str:
    """One line.

    path: as the user gave it. size: of its files, in bytes. cost: of a traced step, in words.
    """
    facts = [_steps(steps), f"{tensors} tensor" + "s" * (tensors != 1), _bytes(size)]
    said = f"{', '.join([*facts, *filter(None, [cost])])} -> {path}"
    # Who waits for the trace knows what comes next.
    return said if is_awaited() else f"{said}. Next: {_next(path, kind)}"


def size_of(files: Sequence[Path]) -> int:
    """The bytes of those that exist."""
    size = 0
    for file in files:
        with suppress(OSError):
            size += file.stat().st_size
    return size


def _next(path: Path, kind: TraceKind) -> str:
    if kind.plan is not None:
        return "the other run under the same plan; ttrace compare REF RUN"
    if kind.noise is not None:
        return f"ttrace compare REF RUN --noise {path}"
    if any(size > 1 for size in kind.mesh.axes.values()):
        return f"ttrace compare REF {path}"
    return f"TTRACE_OUT=run/ torchrun ...; ttrace compare {path} run/"


def _steps(steps: Sequence[int]) -> str:
    if len(steps) == 1:
        return f"step {steps[0]}"
    if len(steps) <= 3:
        return f"steps {', '.join(map(str, steps[:-1]))} and {steps[-1]}"
    return f"{len(steps)} steps from {steps[0]} to {steps[-1]}"


def _bytes(size: int) -> str:
    """As `ls --si` prints it."""
    value, units = float(size), iter(("B", "kB", "MB", "GB", "TB"))
    unit = next(units)
    while value >= 1000 and unit != "TB":
        value, unit = value / 1000, next(units)
    return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
