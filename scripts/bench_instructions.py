"""What a change of how `ttrace` is compiled costs: two builds on the same command.

    scripts/bench_instructions.py [--pairs 11] BEFORE AFTER -- compare ref.h5 run --threads 1

Counts instructions with valgrind (callgrind), which differ by less than 0.1 % from run to run, also
on a busy machine; then takes the user times of pairs in turn.
"""

from __future__ import annotations

import argparse
import re
import resource
import statistics
import subprocess
import sys
import tempfile


def instructions(command: list[str]) -> int:
    """Of the command and of the processes that it starts."""
    with tempfile.TemporaryDirectory() as folder:
        counted = ["valgrind", "--tool=callgrind", "--trace-children=yes"]
        counted.append(f"--callgrind-out-file={folder}/%p")
        told = subprocess.run([*counted, *command], capture_output=True, text=True).stderr
    counts = [int(count) for count in re.findall(r"Collected : (\d+)", told)]
    if not counts:
        sys.exit(f"{' '.join(command)}: nothing was counted\n{told}")
    return sum(counts)


def user_seconds(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run(command, capture_output=True)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=11)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("arguments", nargs="+")
    options = parser.parse_args()
    ways = [[program, *options.arguments] for program in (options.before, options.after)]
    before, after = (instructions(way) for way in ways)
    print(f"instructions {before:,} {after:,} {after / before - 1:+.2%}")
    ratios, times = [], []
    for i in range(options.pairs):
        order = (0, 1) if i % 2 == 0 else (1, 0)
        taken = {way: user_seconds(ways[way]) for way in order}
        times.append((taken[0], taken[1]))
        ratios.append(taken[1] / taken[0])
    medians = [statistics.median(pair[way] for pair in times) for way in (0, 1)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    print(f"user s {medians[0]:.3f} {medians[1]:.3f}, ratio {middle:.3f} ({low:.3f} to {high:.3f})")


if __name__ == "__main__":
    main()
