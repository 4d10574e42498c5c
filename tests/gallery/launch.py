"""Starts the trainer by its command line, one process or several (forked, as importing torch takes
longer than a run), and reads what it prints."""

import json
from dataclasses import dataclass
from pathlib import Path

from support.python_runs import run_python

TRAIN = Path(__file__).parent / "train.py"
TORCHRUN = Path(__file__).parents[1] / "support" / "forked_torchrun.py"
TIMEOUT_SECONDS = 300


@dataclass(frozen=True)
class Finished:
    exit_code: int
    steps: list[dict[str, float]]  # step, loss, grad_norm
    errors: str


def launch(*options: str, processes: int = 1) -> Finished:
    """Runs the trainer to its end, whatever that is."""
    command = [TORCHRUN, f"--nproc-per-node={processes}"] if processes > 1 else []
    done = run_python(
        [*command, TRAIN, *options],
        timeout=TIMEOUT_SECONDS,
        environment={"OMP_NUM_THREADS": "1"},
    )
    # Gloo too may write to stdout.
    steps = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return Finished(done.returncode, steps, done.stderr)
