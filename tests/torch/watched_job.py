"""A job of quick steps, and `ttrace watch` beside it. As a script, it trains."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from support.python_runs import run_python
from support.ttrace_cli import ttrace_binary


def train(steps: int, seconds: float, wrong: int) -> None:
    """wrong: the step that gets other data, or -1."""
    import torch

    import ttrace_torch as tt

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(*[torch.nn.Linear(32, 32) for _ in range(3)])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with tt.trace(model, optimizer) as tracer:
        for step in range(steps):
            end = time.monotonic() + seconds
            with tracer.step(step):
                x = torch.randn(8, 32) * (1.01 if step == wrong else 1)
                tracer.loss(model(x).square().mean()).backward()
                optimizer.step()
                optimizer.zero_grad()
            time.sleep(max(0.0, end - time.monotonic()))


def run(out: Path, steps: int, seconds: float, wrong: int = -1) -> None:
    """Trains in a process of its own, and records every step."""
    path = os.pathsep.join(sys.path)
    environment = {"PYTHONPATH": path, "TTRACE_OUT": str(out), "TTRACE_STEPS": "0-"}
    given = [__file__, str(steps), str(seconds), str(wrong)]
    done = run_python(given, 600, environment=environment)
    assert done.returncode == 0, done.stderr


def watched(
    reference: Path, out: Path, steps: int, seconds: float, wrong: int = -1
) -> tuple[int, list[str]]:
    """Trains while `ttrace watch` judges; its exit code and lines."""
    watch = [ttrace_binary(), "watch", out, "--reference", reference, "--timeout", "60s"]
    process = subprocess.Popen(watch, stdout=subprocess.PIPE, text=True)
    try:
        run(out, steps, seconds, wrong)
        said, _ = process.communicate(timeout=600)
    finally:
        process.kill()
    return process.returncode, said.splitlines()


if __name__ == "__main__":
    train(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
