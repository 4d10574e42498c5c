"""Many nights: how close the worst tensors came to their limits."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ttrace_torch.compare.program import ProgramError, last_line, path_argument, run_program
from ttrace_torch.report.answers import Report
from ttrace_torch.report.errors import CommandFailed, ReportError
from ttrace_torch.report.optional import needed
from ttrace_torch.report.plots import draw_limit, height, new_axes, top_of
from ttrace_torch.report.read import load

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


@dataclass(frozen=True)
class Trend:
    """The reports of many nights, the oldest first. Printed it is `ttrace report trend`."""

    paths: tuple[str, ...]
    nights: tuple[Report, ...]
    text: str

    def __str__(self) -> str:
        return self.text

    def used(self, worst: int = 10) -> dict[str, list[float | None]]:
        """The share of its allowed error that a tensor used in each night, by id, for the `worst`
        tensors of all nights; None for a night that lacks the tensor."""
        found: dict[str, list[float | None]] = {}
        for at, night in enumerate(self.nights):
            for one in night.results:
                if one.used is not None:
                    found.setdefault(one.id, [None] * len(self.nights))[at] = one.used
        return dict(sorted(found.items(), key=_most, reverse=True)[:worst])

    def frame(self, worst: int = 10) -> DataFrame:
        """One row for each night, one column for each tensor."""
        pandas = needed("pandas", "frame()")
        frame: DataFrame = pandas.DataFrame(self.used(worst), index=list(self.paths), dtype="float")
        return frame

    def plot(self, worst: int = 10, axes: Axes | None = None) -> Axes:
        """One line for each tensor over the nights, by matplotlib."""
        used = self.used(worst)
        axes = axes if axes is not None else new_axes()
        top = top_of([value for values in used.values() for value in values if value is not None])
        for name, values in used.items():
            heights = [math.nan if value is None else height(value, top) for value in values]
            axes.plot(range(len(values)), heights, marker=".", label=name)
        draw_limit(axes)
        ticks = [f"{os.path.basename(path)}\n{night.verdict}" for path, night in self._nights()]
        axes.set_xticks(range(len(ticks)), ticks, rotation=45, ha="right", fontsize="small")
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize="small")
        return axes

    def _nights(self) -> Iterable[tuple[str, Report]]:
        return zip(self.paths, self.nights)


def _most(item: tuple[str, list[float | None]]) -> float:
    values = [math.inf if math.isnan(value) else value for value in item[1] if value is not None]
    return max(values)


def trend(paths: Iterable[str | os.PathLike[str]]) -> Trend:
    """Reads reports of one command, the oldest first. Throws ReportError."""
    files = tuple(os.fspath(path) for path in paths)
    if not files:
        raise ReportError("trend(): no report was given")
    try:
        done = run_program(["report", "trend", *map(path_argument, files)])
    except ProgramError as error:
        raise CommandFailed(str(error)) from error
    if done.returncode:
        raise CommandFailed(last_line(done), done.returncode)
    return Trend(files, tuple(load(file) for file in files), done.stdout.rstrip("\n"))
