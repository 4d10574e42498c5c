"""How time and memory of `ttrace compare` grow with bytes, tensors and ranks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from bench_timing import grown, table

HEAD = ["grows", "how many", "seconds", "processor s", "peak MiB"]


def plans() -> list[tuple[str, str, list[str], list[str]]]:
    """What grows, how far, flags of both traces, flags of the candidate."""
    found = []
    for mebibytes in (16, 64, 256, 1024, 4096):
        shape = ["--tensors", "32", "--shape", f"{mebibytes * 2}x4096"]
        found.append(("bytes, on either side", f"{mebibytes} MiB", shape, []))
    for tensors in (100, 1_000, 10_000, 100_000, 1_000_000):
        flags = ["--tensors", str(tensors), "--shape", "16"]
        found.append(("tensors of 64 bytes", f"{tensors:,}", flags, []))
    for ranks in (1, 8, 64, 512, 4096):
        cut = ["--mesh", f"tp={ranks}", "--place", "tp=shard:0"]
        flags = ["--tensors", "16", "--shape", "4096x256"]
        found.append(("ranks that share 64 MiB, 16 tensors", f"{ranks:,}", flags, cut))
    return found


def run(folder: Path, rounds: int, pair: Callable, compare: Callable) -> None:
    rows = []
    for grows, amount, reference, candidate in plans():
        print(f"{grows}: {amount} ...", file=sys.stderr, flush=True)
        with pair(folder, reference, [*candidate, "--noise", "1"]) as (ref, trace):
            times = grown([compare(ref, trace)], rounds)
        seconds = [f"{times.median():.3f}", f"{times.median_processor():.3f}"]
        rows.append([grows, amount, *seconds, f"{times.peak:.0f}"])
        print(f"  {seconds[0]} s", file=sys.stderr, flush=True)
    table(HEAD, rows)
