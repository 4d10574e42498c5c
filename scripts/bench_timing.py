"""Runs programs in turn and says how long they took, and how much memory they had at most."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

Command = list[str]


class Run(NamedTuple):
    """One run of one contestant."""

    seconds: float
    processor: float
    peak: float


@dataclass
class Times:
    """Of one contestant: seconds of every round, processor seconds, largest peak of memory."""

    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)  # seconds of all cores together
    peak: float = 0  # MiB

    def add(self, run: Run, counts: bool = True) -> None:
        self.peak = max(self.peak, run.peak)
        if counts:
            self.seconds.append(run.seconds)
            self.processor.append(run.processor)

    def median_processor(self) -> float:
        return statistics.median(self.processor)

    def median(self) -> float:
        return statistics.median(self.seconds)

    def over(self, other: Times) -> float:
        """The median of the ratios taken round by round."""
        return statistics.median(a / b for a, b in zip(self.seconds, other.seconds, strict=True))


# To h5diff, an attribute more in a rank's file is a difference.
SUCCESS = {"h5diff": (0, 1)}


def run_once(commands: list[Command]) -> Run:
    """Runs them side by side: seconds until the last one ends, sums of the rest."""
    start = time.perf_counter()
    running = [
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        for command in commands
    ]
    peak, processor = 0, 0.0
    for process in running:
        message = process.stderr.read() if process.stderr else b""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        peak += usage.ru_maxrss
        processor += usage.ru_utime + usage.ru_stime
        if process.returncode not in SUCCESS.get(process.args[0], (0,)):
            text = message.decode(errors="replace").strip()
            sys.exit(f"{' '.join(map(str, process.args))}: exit {process.returncode}: {text}")
    return Run(time.perf_counter() - start, processor, peak / 1024)


def in_turn(contestants: dict[str, list[Command]], rounds: int) -> dict[str, Times]:
    """All of them once without counting, then `rounds` times one after the other."""
    times = {name: Times() for name in contestants}
    for turn in range(rounds + 1):
        for name, commands in contestants.items():
            times[name].add(run_once(commands), turn > 0)
    return times


def grown(commands: list[Command], rounds: int, patience: float = 10) -> Times:
    """One program alone: a run that takes longer than `patience` seconds is not repeated."""
    times = Times()
    for turn in range(rounds + 1):
        run = run_once(commands)
        long = run.seconds > patience
        times.add(run, turn > 0 or long)
        if long:
            break
    return times


def machine() -> str:
    """CPU model, cores and memory."""
    model = "unknown CPU"
    with open("/proc/cpuinfo") as lines:
        for line in lines:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB"


def table(head: list[str], rows: list[list[str]], out: Callable[[str], object] = print) -> None:
    """As Markdown, with columns lined up."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    for row in [head, ["-" * width for width in widths], *rows]:
        out("| " + " | ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)) + " |")
