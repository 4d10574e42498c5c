"""Whether `ttrace watch` judges every step of a healthy job: 200 steps of 0.2 s, ten times.
PYTHONPATH=tests:tests/torch:lib/torch TTRACE=build/ttrace python scripts/soak_watch.py"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from watched_job import run, watched

STEPS, SECONDS, TIMES = 200, 0.2, 10


def main() -> int:
    bad = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(folder / "ref.h5", STEPS, 0)
        for turn in range(TIMES):
            code, lines = watched(folder / "ref.h5", folder / f"run{turn}", STEPS, SECONDS)
            first = sum("  MATCH  " in line for line in lines[:-1])
            print(f"{code}  {first} of {STEPS} steps match  {lines[-1]}", flush=True)
            bad += code != 0 or first != STEPS
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
