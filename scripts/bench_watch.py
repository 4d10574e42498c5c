"""How long after a step of 1,001 tensors is on disk `ttrace watch` prints its line, and how much of
that comparing alone takes. PYTHONPATH=tests TTRACE=build/ttrace python scripts/bench_watch.py"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from unittest import mock

from cli import growing_trace
from cli.rank_files import entry
from support.ttrace_cli import ttrace_binary

STEPS, TENSORS = range(8), 1000


def entries(step: int) -> list[dict]:
    """As those of growing_trace, but many."""
    sharded = growing_trace.SHARDED
    outputs = [entry(f"fc{i}", (8, 4), "output", step=step, **sharded) for i in range(TENSORS)]
    return [*outputs, entry("loss", (), "loss", step=step)]


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as name,
        mock.patch.object(growing_trace, "entries", entries),
    ):
        folder = Path(name)
        reference = growing_trace.write_reference(folder / "ref.h5", list(STEPS))
        run = growing_trace.GrowingRun(folder / "run")
        watch = [ttrace_binary(), "watch", folder / "run", "--reference", reference]
        process = subprocess.Popen(watch, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        time.sleep(1)
        delays = []
        for step in STEPS:
            run.write(step)
            begun = time.monotonic()
            line = process.stdout.readline()
            delays.append(time.monotonic() - begun)
            assert line.startswith(f"step {step}  MATCH"), line
        process.kill()
        run.close()
        compare = [ttrace_binary(), "compare", reference, folder / "run", "--step", "0", "--quiet"]
        alone = []
        for _ in STEPS:
            begun = time.monotonic()
            subprocess.run(compare, check=True, capture_output=True)
            alone.append(time.monotonic() - begun)
    for what, seconds in {"line after the step": delays, "comparing alone": alone}.items():
        middle, most = statistics.median(seconds), max(seconds)
        print(f"{what}: median {middle:.2f} s, worst {most:.2f} s of {len(seconds)}")


if __name__ == "__main__":
    main()
