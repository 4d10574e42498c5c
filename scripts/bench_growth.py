"""How time and memory of `ttrace compare` grow with bytes, tensors and ranks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from bench_timing import grown, table
from support.synth import Entry, tensors

HEAD = ["grows", "how many", "seconds", "processor s", "peak MiB"]


def plans() -> Iterator[tuple[str, str, Callable[[], list[Entry]], dict[str, int]]]:
    """What grows, how far, the tensors, the candidate's mesh."""
    for mebibytes in (16, 64, 256, 1024, 4096):
        made = partial(tensors, 32, [mebibytes * 2, 4096])
        yield "bytes, on either side", f"{mebibytes} MiB", made, {}
    for count in (100, 1_000, 10_000, 100_000, 1_000_000):
        yield "tensors of 64 bytes", f"{count:,}", partial(tensors, count, [16]), {}
    for ranks in (1, 8, 64, 512, 4096):
        made = partial(tensors, 16, [4096, 256], placements={"tp": {"shard": 0}})
        yield "ranks that share 64 MiB, 16 tensors", f"{ranks:,}", made, {"tp": ranks}


def run(folder: Path, rounds: int, pair: Callable, compare: Callable) -> None:
    rows = []
    for grows, amount, made, mesh in plans():
        print(f"{grows}: {amount} ...", file=sys.stderr, flush=True)
        with pair(folder, made, mesh=mesh) as (ref, trace):
            times = grown([compare(ref, trace)], rounds)
        seconds = [f"{times.median():.3f}", f"{times.median_processor():.3f}"]
        rows.append([grows, amount, *seconds, f"{times.peak:.0f}"])
        print(f"  {seconds[0]} s", file=sys.stderr, flush=True)
    table(HEAD, rows)
