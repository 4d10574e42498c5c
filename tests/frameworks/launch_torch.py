"""Trains cases on some processes, one after the other: `launch_torch.py WORLD CASES OUT`.

CASES is a JSON object, name -> case, with what `train_torch.main` or `train_pipeline.main` reads;
`one` makes the trace a single file. Importing torch takes most of the time, so the processes are
forked and train all cases.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import train_pipeline
import train_torch
from process_groups import run_ranks


def run_cases(rank, cases, out):
    for name, case in cases.items():
        script = train_pipeline if "schedule" in case else train_torch
        script.main(case, out / (f"{name}.h5" if "one" in case else name))


if __name__ == "__main__":
    run_ranks(int(sys.argv[1]), run_cases, json.loads(sys.argv[2]), Path(sys.argv[3]))
