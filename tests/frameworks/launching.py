"""What the scripts `launch_*.py {WORLD CASES} OUT` share: processes that train case after case.

For each number of processes, WORLD, one after the other: importing a framework takes as long as
many trainings. CASES is a JSON object, name -> case. Each case writes OUT/<name>/, or OUT/<name>.h5
on one process. How long each took goes to OUT/seconds<WORLD>.json, and why a case that says
`refused` was to OUT/<name>.txt; likewise the error of one that says `may_fail`, which all its ranks
must raise. A case that says `recorded` has these steps alone in its trace.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import socket
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.multiprocessing as multiprocessing

from ttrace_torch.errors import TraceError


def launch(begin, train, script=None):
    """Trains what the command line says.

    begin: called with the world's size on each process, makes the process group.
    train: called with a case and the path of its trace.
    script: that of a case which names none.
    """
    *words, out = sys.argv[1:]
    groups = [
        (int(world), json.loads(cases))
        for world, cases in zip(words[::2], words[1::2], strict=True)
    ]
    # Before there are ranks, each of which would import them and their frameworks.
    for name in {case.get("script", script) for _, cases in groups for case in cases.values()}:
        if name is not None:
            importlib.import_module(name)
    # So is what a first optimizer step imports.
    torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))]).step()
    # ttrace_torch looks at all objects that the garbage collector knows of in each traced step.
    gc.collect()
    gc.freeze()
    for world, cases in groups:
        # Rank 0 serves on this socket: a port that were closed meanwhile could be another's by
        # then.
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            multiprocessing.start_processes(
                _run_rank,
                (world, listening, begin, train, cases, Path(out)),
                nprocs=world,
                start_method="fork",
            )


def begin_gloo(rank, world):
    # A rank that fails alone leaves the others waiting: not for the half hour that is the default.
    patience = timedelta(minutes=5)
    store = torch.distributed.TCPStore(
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        world,
        is_master=rank == 0,
        timeout=patience,
        master_listen_fd=int(os.environ["LISTENING"]) if rank == 0 else None,
    )
    torch.distributed.init_process_group(
        "gloo", store=store, rank=rank, world_size=world, timeout=patience
    )


def end_groups():
    """Ends the groups that a case made: who forgets one leaves its threads running, which are a
    thousand after some cases."""
    for group in list(torch.distributed.distributed_c10d._world.pg_map):
        if group is not torch.distributed.group.WORLD:
            torch.distributed.destroy_process_group(group)


def _run_rank(rank, world, listening, begin, train, cases, out):
    address, port = listening.getsockname()
    os.environ.update(MASTER_ADDR=address, MASTER_PORT=str(port), LOCAL_RANK=str(rank))
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), LISTENING=str(listening.detach()))
    torch.set_num_threads(1)
    begin(rank, world)
    seconds = {}
    for name, case in cases.items():
        begun = time.monotonic()
        try:
            if "recorded" in case:
                os.environ["TTRACE_STEPS"] = case["recorded"]
            train(case, out / (f"{name}.h5" if world == 1 else name))
        except Exception as error:
            refused = case.get("refused") and isinstance(error, TraceError)
            if not (refused or case.get("may_fail")):
                raise
            told = str(error) if refused else f"{type(error).__name__}: {error}"
            (out / f"{name}.txt").write_text(told, encoding="utf-8")
        finally:
            os.environ.pop("TTRACE_STEPS", None)
        seconds[name] = time.monotonic() - begun
    if rank == 0:
        (out / f"seconds{world}.json").write_text(json.dumps(seconds), encoding="utf-8")
    torch.distributed.destroy_process_group()
