"""Jobs killed with SIGKILL in the middle of a step: what is left, and what `ttrace` says."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest
import torch
from small_models import TiedGPT, batch, cross_entropy, seeded, train_step
from torch import distributed
from trace_reading import Trace

import ttrace_torch as tt

TTRACE = os.environ.get("TTRACE", str(Path(__file__).resolve().parents[2] / "build" / "ttrace"))
STEPS = 3


def ttrace(*arguments):
    """Exit code, and all that was printed."""
    command = [TTRACE, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    return done.returncode, done.stdout + done.stderr


def train(rank, folder, port, killed, step_of_death):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    distributed.init_process_group("gloo", rank=rank, world_size=2)
    model = seeded(TiedGPT)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    with tt.trace(model, optimizer, out=folder, mesh=tt.Mesh({"dp": 2})) as tracer:
        for step in range(STEPS):
            with tracer.step(step):
                with tracer.microbatch(rank):
                    ids, targets = batch(seed=100 * step + rank)
                    (tracer.loss(cross_entropy(model(ids), targets)) / 2).backward()
                if step == step_of_death:
                    # All that was recorded so far is in the file by now, and in no manifest.
                    tracer._output._writer.submit("waiting", lambda: None)
                    while tracer._output._writer._jobs:
                        pass
                    distributed.barrier()
                    if rank in killed:
                        os.kill(os.getpid(), signal.SIGKILL)
                for parameter in model.parameters():
                    distributed.all_reduce(parameter.grad)
                optimizer.step()
                optimizer.zero_grad()


def run_and_kill(folder, killed, step_of_death):
    """Exit codes of the two ranks."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = torch.multiprocessing.get_context("fork")
    ranks = [
        context.Process(target=train, args=(rank, folder, port, killed, step_of_death))
        for rank in range(2)
    ]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(600)
    return [process.exitcode for process in ranks]


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    path = tmp_path_factory.mktemp("reference") / "ref.h5"
    model = seeded(TiedGPT)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    with tt.trace(model, optimizer, out=path) as tracer:
        for step in range(STEPS):
            train_step(model, tracer, optimizer, step=step, microbatches=2)
    return path


@pytest.mark.parametrize("killed", [(0, 1), (1,)], ids=["both", "one"])
def test_killed_in_the_third_step(tmp_path, reference, killed):
    codes = run_and_kill(tmp_path, killed, step_of_death=2)
    assert [codes[rank] for rank in killed] == [-signal.SIGKILL] * len(killed)
    assert 0 not in codes
    assert sorted(p.name for p in tmp_path.iterdir()) == ["rank_00000.h5", "rank_00001.h5"]
    status, said = ttrace("lint", tmp_path)
    assert status == 2 and "ttrace lint --write" in said
    assert ttrace("compare", reference, tmp_path)[0] == 2
    status, said = ttrace("lint", "--write", tmp_path)
    assert status == 0 and "from the parts of 2 of 2 ranks" in said
    trace = Trace(tmp_path)
    trace.check_complete()
    assert {entry["step"] for entry in trace.entries.values()} == {0, 1}
    status, said = ttrace("compare", reference, tmp_path)
    both = "ranks {0, 1} did not close their files"
    open_ranks = both if len(killed) == 2 else "rank 1 did not close its file"
    assert status == 3 and open_ranks in said, said
    status, said = ttrace("compare", reference, tmp_path, "--step", 0, "--step", 1)
    assert status == 0, said


def test_killed_in_the_first_step(tmp_path, reference):
    run_and_kill(tmp_path, (0, 1), step_of_death=0)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "rank_00000.h5.tmp",
        "rank_00001.h5.tmp",
    ]
    for arguments in (["lint", tmp_path], ["lint", "--write", tmp_path]):
        assert ttrace(*arguments)[0] == 2
    assert ttrace("compare", reference, tmp_path)[0] == 2
