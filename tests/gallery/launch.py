"""Starts the trainer as a user would, one process or several, and reads what it prints."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

TRAIN = Path(__file__).parent / "train.py"
TIMEOUT_SECONDS = 300


@dataclass(frozen=True)
class Finished:
    exit_code: int
    steps: list[dict[str, float]]  # step, loss, grad_norm
    errors: str


def launch(*options: str, processes: int = 1) -> Finished:
    """Runs the trainer to its end, whatever that is."""
    command = [sys.executable]
    if processes > 1:
        # Standalone: it finds a free port itself, so runs side by side do not collide.
        command += ["-m", "torch.distributed.run", "--standalone"]
        command += [f"--nproc-per-node={processes}"]
    done = subprocess.run(
        [*command, str(TRAIN), *options],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    # Gloo too may write to stdout.
    steps = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return Finished(done.returncode, steps, done.stderr)
