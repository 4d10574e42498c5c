"""What a traced step of Megatron-core costs on one process: `bench_megatron.py [HIDDEN LAYERS]`.

Prints the median seconds of steps without a tracer, with one that is attached and idle, and traced;
and how much a traced step wrote.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path

import megatron_on_cpu
import torch

megatron_on_cpu.install()

import train_gpt  # noqa: E402
from megatron.core import parallel_state  # noqa: E402

import ttrace_torch as tt  # noqa: E402

WARM_UP, STEPS = 2, 7


class Timed:
    """A tracer that times its steps; traces none, some or, without one inside, does nothing."""

    def __init__(self, tracer, traced):
        self.seconds = []
        self._tracer, self._traced = tracer, traced

    @contextmanager
    def step(self, number):
        traced = self._traced and number >= WARM_UP
        begun = time.perf_counter()
        with self._tracer.step(number) if traced else nullcontext():
            yield
        self.seconds.append(time.perf_counter() - begun)

    def loss(self, loss, placements):
        return self._tracer.loss(loss, placements) if self._tracer else loss

    def close(self):
        if self._tracer and self._traced:
            self._tracer.close()


def median(attached, traced, out):
    made = []
    trace = tt.trace

    def timed(*args, **kwargs):
        made.append(Timed(trace(*args, **kwargs) if attached else None, traced))
        return made[0]

    tt.trace = timed
    train_gpt.main({}, out)
    tt.trace = trace
    return statistics.median(made[0].seconds[WARM_UP:])


def main():
    hidden, layers = (int(a) for a in sys.argv[1:3]) if len(sys.argv) > 2 else (32, 4)
    train_gpt.HIDDEN, train_gpt.LAYERS, train_gpt.STEPS = hidden, layers, STEPS
    if hidden > 32:
        train_gpt.SEQUENCE = 256
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    parallel_state.initialize_model_parallel()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "trace.h5"
        without = median(False, False, out)
        idle = median(True, False, out)
        traced = median(True, True, out)
        size = out.stat().st_size / (STEPS - WARM_UP) / 2**20
    print(
        f"| {hidden} hidden, {layers} layers | {1e3 * without:.1f} | {1e3 * idle:.1f} | "
        f"{1e3 * traced:.1f} | {size:.1f} MiB |"
    )


if __name__ == "__main__":
    main()
