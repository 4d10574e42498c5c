"""What the collector costs: times of a training step on the CPU, taken in turn.

Usage: bench_collector.py [rounds]. Prints one line for each way to run the step.
"""

from __future__ import annotations

import resource
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

import torch
from torch import nn

import ttrace_torch as tt

LAYERS, WIDTH, HEADS, VOCABULARY, LENGTH, ROWS = 4, 256, 4, 8192, 256, 4


class Block(nn.Module):
    """A pre-norm transformer block."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            part.unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).chunk(3, -1)
        )
        heads = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(heads.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Embedding, blocks, head."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.layers(self.embedding(ids))))


class Job:
    """A model with its optimizer, and one way of tracing it."""

    def __init__(self, out: Path | None, traced: bool, attach: bool, kinds: list[str] | None):
        torch.manual_seed(0)
        self.model = GPT()
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.ids = torch.randint(VOCABULARY, (ROWS, LENGTH))
        self.traced, self.out, self.number = traced, out, 0
        steps = None if traced else "1000000"
        self.tracer = (
            tt.trace(self.model, self.optimizer, out, kinds=kinds, steps=steps) if attach else None
        )

    def plain_step(self) -> None:
        loss = nn.functional.cross_entropy(self.model(self.ids).flatten(0, 1), self.ids.flatten())
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def tracer_step(self) -> None:
        tracer = self.tracer
        with tracer.step(self.number), tracer.microbatch(0):
            loss = nn.functional.cross_entropy(
                self.model(self.ids).flatten(0, 1), self.ids.flatten()
            )
            tracer.loss(loss).backward()
            self.optimizer.step()
            self.optimizer.zero_grad()

    def seconds(self) -> float:
        """One step; then waits, untimed, until it is written."""
        begin = time.perf_counter()
        if self.tracer is None:
            self.plain_step()
        else:
            self.tracer_step()
        taken = time.perf_counter() - begin
        self.number += 1
        if self.traced:
            written = threading.Event()
            self.tracer._output._writer.submit("waiting", written.set)
            written.wait()
        return taken


WAYS = {
    "no ttrace": (False, False, False, None),
    "attached, inactive": (False, True, False, None),
    "attached, between traced steps": (False, True, True, None),
    "traced: main_grad": (True, True, True, ["main_grad"]),
    "traced: output": (True, True, True, ["output"]),
    "traced: every kind": (True, True, True, None),
}


def idle_seconds(times: int = 10_000) -> float:
    """What the calls of one step of an inactive tracer take alone."""
    tracer = tt.trace(None)
    loss = torch.zeros(())
    begin = time.perf_counter()
    for number in range(times):
        with tracer.step(number), tracer.microbatch(0):
            tracer.loss(loss)
    return (time.perf_counter() - begin) / times


def three_steps(folder: Path, number: int, kinds: list[str] | None) -> float:
    """Three steps and close(), all of them traced, or none without kinds; in seconds."""
    out = folder / f"three{number}.h5" if kinds else None
    job = Job(out, bool(kinds), bool(kinds), kinds)
    job.plain_step()
    begin = time.perf_counter()
    for _ in range(3):
        job.plain_step() if job.tracer is None else job.tracer_step()
        job.number += 1
    if job.tracer is not None:
        job.tracer.close()
    return time.perf_counter() - begin


def ratio_of_three_steps(folder: Path, rounds: int) -> float:
    """Gradients and parameters alone, three steps with close(), over three untraced steps."""
    ratios = []
    for number in range(rounds):
        traced = three_steps(folder, number, ["main_grad", "param"])
        ratios.append(traced / three_steps(folder, number, None))
        (folder / f"three{number}.h5").unlink()
    return statistics.median(ratios)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with tempfile.TemporaryDirectory() as folder:
        jobs, times = {}, {}
        for number, (way, (traced, attach, active, kinds)) in enumerate(WAYS.items()):
            out = Path(folder, f"{number}.h5") if active else None
            jobs[way], times[way] = Job(out, traced, attach, kinds), []
            jobs[way].seconds()
        for turn in range(rounds):
            ways = list(WAYS)
            for way in ways[turn % len(ways) :] + ways[: turn % len(ways)]:
                times[way].append(jobs[way].seconds())
        print(f"{'':32} {'ms':>8} {'ratio':>7} {'MB a step':>10} {'close s':>8}")
        for way, job in jobs.items():
            begin = time.perf_counter()
            if job.tracer is not None:
                job.tracer.close()
            closing = time.perf_counter() - begin
            steps = job.number if job.traced else 1
            size = job.out.stat().st_size / steps / 1e6 if job.traced else 0.0
            median = statistics.median(times[way])
            # Ratios turn by turn: what else the machine does weighs on both alike.
            ratio = statistics.median(
                one / other for one, other in zip(times[way], times["no ttrace"], strict=True)
            )
            print(f"{way:32} {1e3 * median:8.1f} {ratio:7.3f} {size:10.1f} {closing:8.2f}")
        three = ratio_of_three_steps(Path(folder), rounds)
        print(f"three steps of main_grad and param, with close(): {three:.2f} x untraced")
        print(f"an inactive tracer's calls: {1e6 * idle_seconds():.1f} us a step")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        print(f"peak memory of the process, six models in it: {peak} MiB")


if __name__ == "__main__":
    main()
