"""The odd jobs over ranks: data parallelism of several kinds on a CPU.

Usage: python -m zoo.odd_ranks [--how ddp]... [--only JOB]... [--autocast] [--at-once N]

The reference, its noise run and its specification have four micro-batches in one process; the
candidate has two of them on each of two ranks, and no oneDNN. `ttrace audit` and `ttrace compare`,
without noise and with it, judge a healthy candidate and one with a fault in one parameter, drawn by
the job's name: by hand its gradient is not summed over the ranks, else it is 1.05 times too large.
Exits with 1 if a healthy run is accused, with 3 if a job was not trained.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import tempfile
import traceback
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

import ttrace_torch as tt
from zoo.odd_jobs import JOBS, Answer, answers_of, each_of, optimizer_of, told

SECONDS = 300
RANKS = 2
SHARE = 2  # micro-batches of a rank
HOW = ("ddp", "ddp, zero", "fsdp2", "by hand")
_PROCESSES = multiprocessing.get_context("forkserver")


def _wrapped(model: nn.Module, how: str) -> nn.Module:
    if how.startswith("ddp"):
        return DistributedDataParallel(model)
    if how == "fsdp2":
        for child in model.children():
            if any(True for _ in child.parameters()) and type(child) is not nn.ModuleList:
                fully_shard(child)
        fully_shard(model)
    return model


def _optimizer(name: str, model: nn.Module, how: str | None) -> torch.optim.Optimizer:
    kind, settings = optimizer_of(name)
    if how == "ddp, zero":
        return ZeroRedundancyOptimizer(model.parameters(), kind, **settings)
    return kind(model.parameters(), **settings)


def train(
    name: str,
    out: Path,
    *,
    how: str | None = None,
    specification: Path | None = None,
    seed: int | None = None,
    faulty: bool = False,
    autocast: bool = False,
) -> None:
    """Writes a step of four micro-batches: in one process, or, with how, two on each rank."""
    torch.set_num_threads(1)
    if how is not None:
        torch.backends.mkldnn.set_flags(False)
    job = JOBS[name]
    torch.manual_seed(1)
    plain = job.model()
    chosen = random.Random(name).choice([n for n, p in plain.named_parameters() if p.numel() > 3])
    model = plain if how is None else _wrapped(plain, how)
    optimizer = _optimizer(name, model, how)
    torch.manual_seed(2)
    batches = [job.batch() for _ in range(RANKS * SHARE)]
    if how is not None:
        first = dist.get_rank() * SHARE
        batches = batches[first : first + SHARE]
    perturb = None if seed is None else tt.Perturb(seed)
    mesh = tt.Mesh({"dp": RANKS}) if how == "by hand" else None
    tracer = tt.trace(
        model, optimizer, out=out, specification=specification, perturb=perturb, mesh=mesh
    )
    wrong = plain.get_parameter(chosen)
    with tracer.step(0):
        for number, batch in enumerate(batches):
            with tracer.microbatch(number, of=len(batches)):
                last = number == len(batches) - 1
                waits = isinstance(model, DistributedDataParallel) and not last
                with model.no_sync() if waits else nullcontext():
                    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                        loss = job.loss(model, batch)
                    labels = {"labels": batch[-1]} if job.labelled else {}
                    tracer.loss(loss, **labels)
                    (loss / (RANKS * SHARE if how == "by hand" else len(batches))).backward()
        if how == "by hand":
            for parameter in plain.parameters():
                if parameter.grad is not None and not (faulty and parameter is wrong):
                    dist.all_reduce(parameter.grad)
        elif faulty and wrong.grad is not None:
            wrong.grad.mul_(1.05)
        tracer.main_grads()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        if how == "fsdp2":
            norm = norm.full_tensor()
        tracer.grad_norm(norm, clip_norm=0.5)
        optimizer.step()
    tracer.close()


def _child(
    log: Path, rank: int | None, arguments: tuple[Any, ...], options: dict[str, Any]
) -> None:
    with log.open("a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        try:
            if rank is not None:
                meeting = log.with_suffix(f".{options['how']}.{options.get('faulty', False)}")
                dist.init_process_group(
                    "gloo", init_method=f"file://{meeting}", rank=rank, world_size=RANKS
                )
            train(*arguments, **options)
            if rank is not None:
                dist.destroy_process_group()
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)


def _trained(log: Path, *arguments: Any, **options: Any) -> bool:
    ranks = [None] if options.get("how") is None else list(range(RANKS))
    processes = [
        _PROCESSES.Process(target=_child, args=(log, rank, arguments, options)) for rank in ranks
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(SECONDS)
        process.kill()
    return all(process.exitcode == 0 for process in processes)


def tried(name: str, how: str, autocast: bool) -> list[Answer]:
    with tempfile.TemporaryDirectory(prefix="ttrace-odd-") as folder:
        here = Path(folder)
        log, specification = here / "log", here / "specification.json"
        reference, noise, run, faulty = (here / n for n in ("ref.h5", "noise.h5", "run", "bad"))
        runs: tuple[tuple[Path, dict[str, Any]], ...] = (
            (reference, {"specification": specification}),
            (noise, {"seed": 1}),
            (run, {"how": how}),
            (faulty, {"how": how, "faulty": True}),
        )
        if not all(_trained(log, name, out, autocast=autocast, **options) for out, options in runs):
            return [Answer(name, "training", True, None, log.read_text(errors="replace")[-600:])]
        return answers_of(name, reference, noise, specification, run, faulty)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--how", action="append", choices=HOW)
    parser.add_argument("--autocast", action="store_true", help="in bfloat16")
    parser.add_argument("--only", action="append", choices=sorted(JOBS))
    parser.add_argument("--at-once", type=int, default=1, help="how many jobs at a time")
    args = parser.parse_args()
    warnings.filterwarnings("ignore", "'zoo", RuntimeWarning)
    codes = []
    for how in args.how or HOW:

        def one(name: str, how: str = how) -> list[Answer]:
            return tried(name, how, args.autocast)

        print(f"{how}:")
        codes.append(told(each_of(args.only or list(JOBS), one, args.at_once)))
    return 1 if 1 in codes else max(codes)


if __name__ == "__main__":
    sys.exit(main())
