"""What small tensors cost: a step of a model of many parameters of one element each, SGD.

Usage: PYTHONPATH=lib/torch OMP_NUM_THREADS=1 bench_small_tensors.py [parameters [rounds]]. Prints
what a traced step with close() takes beyond an untraced one: seconds, and processor seconds.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import nn

import ttrace_torch as tt


class Many(nn.Module):
    """Parameters of one element each."""

    def __init__(self, count: int) -> None:
        super().__init__()
        values = (torch.tensor([0.1 + number / count]) for number in range(count))
        self.weights = nn.ParameterList(map(nn.Parameter, values))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (torch.cat(list(self.weights)) * x).sum()


def seconds(model: Many, optimizer: torch.optim.Optimizer, out: Path | None) -> list[float]:
    """Seconds, and processor seconds, of a step."""
    x = torch.ones(len(model.weights))
    tracer = tt.trace(model, optimizer, out=out)
    began = time.perf_counter(), time.process_time()
    with tracer.step(0):
        with tracer.microbatch(0):
            tracer.loss(model(x)).backward()
        optimizer.step()
    optimizer.zero_grad()
    tracer.close()
    return [time.perf_counter() - began[0], time.process_time() - began[1]]


def main() -> None:
    count, rounds = (*map(int, sys.argv[1:3]), *(10_000, 5)[len(sys.argv) - 1 :])
    model = Many(count)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    seconds(model, optimizer, None)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            traced = seconds(model, optimizer, Path(folder, f"{number}.h5"))
            plain = seconds(model, optimizer, None)
            found.append([one - other for one, other in zip(traced, plain, strict=True)])
        wall, processor = (statistics.median(column) for column in zip(*found, strict=True))
        size = Path(folder, "0.h5").stat().st_size / 1e6
    print(f"{count} parameters: {wall:.2f} s more, {processor:.2f} processor s, {size:.1f} MB")


if __name__ == "__main__":
    main()
