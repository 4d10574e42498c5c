"""Runs programs in turn and says how long they took, and how much memory they had at most."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

Command = list[str]


@dataclass
class Times:
    """Of one contestant: seconds of every round, and the largest peak of memory in MiB."""

    seconds: list[float] = field(default_factory=list)
    peak: float = 0

    def median(self) -> float:
        return statistics.median(self.seconds)

    def over(self, other: Times) -> float:
        """The median of the ratios taken round by round."""
        return statistics.median(a / b for a, b in zip(self.seconds, other.seconds, strict=True))


# To h5diff, an attribute more in a rank's file is a difference.
SUCCESS = {"h5diff": (0, 1)}


def run_once(commands: list[Command]) -> tuple[float, float]:
    """Runs them side by side: seconds until the last one ends, and the sum of their peaks."""
    start = time.perf_counter()
    running = [
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        for command in commands
    ]
    peak = 0
    for process in running:
        message = process.stderr.read() if process.stderr else b""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        peak += usage.ru_maxrss
        if process.returncode not in SUCCESS.get(process.args[0], (0,)):
            text = message.decode(errors="replace").strip()
            sys.exit(f"{' '.join(map(str, process.args))}: exit {process.returncode}: {text}")
    return time.perf_counter() - start, peak / 1024


def in_turn(contestants: dict[str, list[Command]], rounds: int) -> dict[str, Times]:
    """All of them once without counting, then `rounds` times one after the other."""
    times = {name: Times() for name in contestants}
    for turn in range(rounds + 1):
        for name, commands in contestants.items():
            seconds, peak = run_once(commands)
            times[name].peak = max(times[name].peak, peak)
            if turn > 0:
                times[name].seconds.append(seconds)
    return times


def grown(commands: list[Command], rounds: int, patience: float = 10) -> Times:
    """One program alone: a run that takes longer than `patience` seconds is not repeated."""
    times = Times()
    for turn in range(rounds + 1):
        seconds, peak = run_once(commands)
        times.peak = max(times.peak, peak)
        if turn > 0 or seconds > patience:
            times.seconds.append(seconds)
        if seconds > patience:
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
