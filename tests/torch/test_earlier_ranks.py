"""Ranks that find the trace of an earlier run: they begin at any time, and none loses a file.

In process groups, without one, under torchrun with restarts, after a kill.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

import pytest
import torch
from process_groups import run_ranks
from small_models import TiedGPT, batch, cross_entropy, seeded
from support.long_cases import chosen
from support.python_runs import run_python
from torch import distributed
from trace_reading import Trace

import ttrace_torch as tt
from ttrace_torch.write import earlier

TESTS = Path(__file__).resolve().parents[1]


def files(folder):
    """Name -> content."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def names(count):
    return {"manifest.json", *(f"rank_{rank:05d}.h5" for rank in range(count))}


def train(tracer, model, optimizer, steps=1, together=True):
    with tracer:
        for step in range(steps):
            with tracer.step(step):
                ids, targets = batch(seed=step)
                tracer.loss(cross_entropy(model(ids), targets)).backward()
                if together:
                    for parameter in model.parameters():
                        distributed.all_reduce(parameter.grad)
                optimizer.step()
                optimizer.zero_grad()


def traced(folder, axes, **options):
    model = seeded(TiedGPT)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    # All ranks get the same data.
    options = {"dp_axis": (), **options}
    tracer = tt.trace(model, optimizer, out=folder, mesh=tt.Mesh(axes), **options)
    return tracer, model, optimizer


def plain_rank(rank, folder, axes):
    train(*traced(folder, axes))


def wait_until(condition):
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("waited for a minute")


@pytest.fixture(scope="module")
def on_four(tmp_path_factory):
    """The folder of a run on four ranks."""
    folder = tmp_path_factory.mktemp("four") / "run"
    run_ranks(4, plain_rank, folder, {"dp": 4})
    assert set(files(folder)) == names(4)
    return folder


@pytest.fixture
def old(tmp_path, on_four):
    """The files of that run, which stands at tmp_path / "run"."""
    return files(shutil.copytree(on_four, tmp_path / "run"))


def test_a_run_where_nothing_stands_says_nothing(tmp_path, capfd):
    run_ranks(2, plain_rank, tmp_path / "run", {"dp": 2})
    assert capfd.readouterr().err == ""


def first_and_alone(rank, folder):
    # Rank 0 is alone until it has closed: no stale file stands beside its own at any time.
    if rank == 1:
        wait_until((folder.parent / "go").exists)
    traced_model = traced(folder, {"dp": 2})
    if rank == 0:
        assert {path.name for path in folder.iterdir()} <= {"rank_00000.h5.tmp", "rank_00001.h5"}
    train(*traced_model, together=False)
    if rank == 0:
        (folder.parent / "own").write_bytes((folder / "rank_00000.h5").read_bytes())
        (folder.parent / "go").touch()
    distributed.barrier()  # rank 0 has the store


def test_two_ranks_over_a_folder_of_four(tmp_path, old, capfd):
    run_ranks(2, first_and_alone, tmp_path / "run")
    assert set(files(tmp_path / "run")) == names(2)
    assert files(tmp_path / "run.1") == old
    # What rank 0 had written stands as it was when rank 1 had not even begun.
    assert files(tmp_path / "run")["rank_00000.h5"] == (tmp_path / "own").read_bytes()
    Trace(tmp_path / "run").check_complete()
    (said,) = capfd.readouterr().err.splitlines()
    assert "a candidate of TiedGPT on dp 4, recorded " in said
    assert f"is now {tmp_path / 'run.1'}, as this run is a candidate of TiedGPT on dp 2" in said


def late_rank(rank, folder, count, axes):
    # Each rank begins when the one before it has closed.
    wait_until(lambda: rank == 0 or (folder.parent / f"done {rank - 1}").exists())
    train(*traced(folder, axes), together=False)
    (folder.parent / f"done {rank}").touch()
    distributed.barrier()  # rank 0 has the store


@pytest.mark.parametrize("axes", [{"dp": 4}, {"tp": 4}], ids=["same mesh", "other mesh"])
def test_ranks_that_begin_when_others_have_ended(tmp_path, old, capfd, axes):
    run_ranks(4, late_rank, tmp_path / "run", 4, axes)
    assert set(files(tmp_path / "run")) == names(4)
    Trace(tmp_path / "run").check_complete()
    new = Trace(tmp_path / "run").manifest
    assert [axis["name"] for axis in new["meshes"][""]["axes"]] == list(axes)
    assert not set(files(tmp_path / "run").values()) & set(old.values())
    (said,) = capfd.readouterr().err.splitlines()
    if "dp" in axes:
        assert f"{tmp_path / 'run'} replaces a candidate" in said
        assert not (tmp_path / "run.1").exists()
    else:
        assert files(tmp_path / "run.1") == old


def at_once(rank, folder, rounds):
    for turn in range(rounds):
        distributed.barrier()
        train(*traced(folder, {("dp", "tp")[turn % 2]: 4}, kinds="loss"))
        distributed.barrier()
        if rank == 0:
            (folder.parent / f"seen {turn}").mkdir()
            for path in folder.iterdir():
                (folder.parent / f"seen {turn}" / path.name).write_bytes(path.read_bytes())
        distributed.barrier()


def test_ranks_that_begin_at_the_same_moment(tmp_path, capfd):
    rounds = 6
    run_ranks(4, at_once, tmp_path / "run", rounds)
    for turn in range(rounds - 1):
        place = tmp_path / f"run.{turn + 1}"
        assert files(place) == files(tmp_path / f"seen {turn}")
        assert set(files(place)) == names(4)
    assert set(files(tmp_path / "run")) == names(4)
    assert capfd.readouterr().err.count("which stood at") == rounds - 1


def again_and_again(rank, folder, rounds):
    for _ in range(rounds):
        distributed.barrier()
        train(*traced(folder, {"dp": 4}, kinds="loss"))


def test_replacing_leaves_nothing_behind(tmp_path, capfd):
    run_ranks(4, again_and_again, tmp_path / "run", 6)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert set(files(tmp_path / "run")) == names(4)
    assert capfd.readouterr().err.count("replaces a candidate of TiedGPT on dp 4") == 5


def test_a_file_that_another_rank_moves_meanwhile_has_no_time(tmp_path):
    (tmp_path / "there").write_text("")
    assert len(earlier._times([tmp_path / "gone", tmp_path / "there"])) == 1


def recording_alone(rank, folder):
    train(*traced(folder, {"dp": 4}, ranks="1"))


def test_ranks_that_do_not_record_replace_theirs_too(tmp_path, old):
    run_ranks(4, recording_alone, tmp_path / "run")
    assert {path.name for path in tmp_path.iterdir()} == {"run"}
    Trace(tmp_path / "run").check_complete()


def without_group(rank, folder, axes):
    torch.set_num_threads(1)
    train(*traced(folder, axes, rank=rank), together=False)


def run_without_group(count, folder, axes, at_once):
    """The ranks of a job that has no process group when it calls trace()."""
    context = torch.multiprocessing.get_context("fork")
    ranks = [
        context.Process(target=without_group, args=(rank, folder, axes)) for rank in range(count)
    ]
    for process in ranks:
        process.start()
        if not at_once:
            process.join(300)
    for process in ranks:
        process.join(300)
        assert process.exitcode == 0


@pytest.mark.parametrize(
    ("axes", "replaced", "at_once"),
    chosen(
        "ranks without a process group",
        [
            pytest.param({"dp": 4}, True, True, id="same mesh at once"),
            pytest.param({"dp": 4}, True, False, id="same mesh in turn"),
            pytest.param({"tp": 4}, False, True, id="other mesh at once"),
            pytest.param({"dp": 2}, False, False, id="fewer ranks in turn"),
        ],
        [
            pytest.param({"tp": 4}, False, False, id="other mesh in turn"),
            pytest.param({"dp": 2}, False, True, id="fewer ranks at once"),
        ],
    ),
)
def test_ranks_without_a_process_group(tmp_path, old, capfd, axes, replaced, at_once):
    (count,) = axes.values()
    run_without_group(count, tmp_path / "run", axes, at_once)
    assert set(files(tmp_path / "run")) == names(count)
    Trace(tmp_path / "run").check_complete()
    said = capfd.readouterr().err
    assert ("replaces a candidate" in said) == replaced
    if replaced:
        assert not (tmp_path / "run.1").exists()
    else:
        assert files(tmp_path / "run.1") == old


SCRIPT = """
import os, sys, time
import torch
from torch import distributed, nn
import ttrace_torch as tt

torch.set_num_threads(1)
torch.manual_seed(0)
distributed.init_process_group("gloo")
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
rank = distributed.get_rank()
model = nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
tracer = tt.trace(model, optimizer, mesh=tt.Mesh({"dp": 2}))
first = int(sys.argv[1]) if attempt else 0
for number in range(first, first + 3):
    with tracer.step(number):
        tracer.loss(model(torch.full((1, 2), 1.0 + attempt)).sum()).backward()
        for parameter in model.parameters():
            distributed.all_reduce(parameter.grad)
        optimizer.step()
    if attempt == 0 and number == 1:
        tracer._output._writer.submit("waiting", lambda: None)
        while tracer._output._writer._jobs:
            time.sleep(0.01)
        time.sleep(0.2)
        distributed.barrier()
        if rank == 1:
            os._exit(1)
        time.sleep(600)
tracer.close()
"""


def torchrun(tmp_path, first):
    """Runs the script, which dies in its first attempt after two finished steps."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    command = [TESTS / "support" / "forked_torchrun.py", "--nproc-per-node=2", "--max-restarts=1"]
    environment = {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "TTRACE_OUT": str(tmp_path / "run"),
        "TTRACE_STEPS": "0-1",
        "OMP_NUM_THREADS": "1",
        # Gloo finds the addresses of the first attempt in a store that both attempts share.
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }
    done = run_python([*command, script, str(first)], timeout=300, environment=environment)
    assert done.returncode == 0, done.stderr
    return [line for line in done.stderr.splitlines() if "ttrace: " in line]


def test_a_restarted_job_replaces_what_its_first_attempt_left(tmp_path):
    # Two ranks say them, so either may come first.
    said = sorted(torchrun(tmp_path, first=0), key=lambda line: " replaces a " in line)
    assert len(said) == 2 and said[0].startswith("ttrace: steps 0 and 1, "), said
    assert f"{tmp_path / 'run'} replaces a candidate of Linear on dp 2, recorded" in said[1]
    assert not (tmp_path / "run.1").exists()
    trace = Trace(tmp_path / "run")
    trace.check_complete()
    assert trace.manifest["run"]["recorded"]["steps"] == [0, 1]
    assert (trace.value("input", "(model)", microbatch=0) == 2.0).all()


def test_a_restarted_job_that_records_nothing_loses_no_finished_step(tmp_path):
    said = torchrun(tmp_path, first=5)
    assert any("no step was recorded, the job went up to step 7" in line for line in said)
    (moved,) = (line for line in said if "which stood at" in line)
    assert f"is now {tmp_path / 'run.1'}" in moved
    left = tmp_path / "run.1"
    assert set(files(left)) == names(2) - {"manifest.json"}
    tt.write_manifest(left)
    trace = Trace(left)
    trace.check_complete()
    assert trace.manifest["run"]["recorded"]["steps"] == [0, 1]
    assert trace.manifest["run"]["unfinished"] == [0, 1]
