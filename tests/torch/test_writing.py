"""Writing in the background: bounds, steps that are dropped, disks that refuse."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import threading
import time

import h5py
import numpy as np
import pytest
import torch
from complaints import complains
from small_models import TiedGPT, seeded, train_step
from torch import nn
from trace_reading import Trace

import ttrace_torch as tt
from ttrace_torch.write import output as output_module
from ttrace_torch.write.hdf5 import RankFile, is_closed

MEGABYTE = torch.arange(1 << 18, dtype=torch.float32)


def steps_of(path):
    return sorted({entry["step"] for entry in Trace(path).entries.values()})


def train(tracer, model, optimizer, steps):
    return [train_step(model, tracer, optimizer, step=step) for step in steps]


def made(path, **options):
    model = seeded(TiedGPT)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    options = {"run": {"id": "one"}, **options}
    return tt.trace(model, optimizer, out=path, **options), model, optimizer


def slowed(monkeypatch, seconds=0.02):
    """Makes every write slow; gives the bytes of copies that have been waiting at most."""
    peak = [0]
    write, reserve = RankFile.write, output_module.Writer.reserve

    def slow(self, record, data):
        time.sleep(seconds)
        write(self, record, data)

    def noted(self, size):
        result = reserve(self, size)
        peak[0] = max(peak[0], self._waiting)
        return result

    monkeypatch.setattr(RankFile, "write", slow)
    monkeypatch.setattr(output_module.Writer, "reserve", noted)
    return peak


def test_values_are_those_of_the_moment(tmp_path, monkeypatch):
    slowed(monkeypatch)
    tensor = torch.zeros(1000)
    with tt.trace(nn.Linear(1, 1), out=tmp_path / "run.h5") as tracer, tracer.step(0):
        for number in range(10):
            tracer.scalar(f"s{number}", tensor)
            tensor += 1
    trace = Trace(tmp_path / "run.h5")
    for number in range(10):
        assert (trace.value("scalar", f"s{number}") == number).all()


def test_memory_is_bounded_and_the_step_waits(tmp_path, monkeypatch, capfd):
    peak = slowed(monkeypatch)
    with tt.trace(nn.Linear(1, 1), out=tmp_path / "run.h5", memory="2MiB") as tracer:
        for step in range(2):
            with tracer.step(step):
                for number in range(8):
                    tracer.scalar(f"s{number}", MEGABYTE + number)
    assert peak[0] == 2 << 20
    said = capfd.readouterr().err
    assert said.count("\n") == 1 and "the step waits" in said and "TTRACE_MEMORY" in said
    trace = Trace(tmp_path / "run.h5")
    trace.check_complete()
    for number in range(8):
        np.testing.assert_array_equal(trace.value("scalar", f"s{number}", 1), MEGABYTE + number)


def test_a_tensor_larger_than_the_bound_passes_alone(tmp_path, monkeypatch):
    peak = slowed(monkeypatch)
    with tt.trace(nn.Linear(1, 1), out=tmp_path / "run.h5", memory=10) as tracer, tracer.step(0):
        for number in range(3):
            tracer.scalar(f"s{number}", MEGABYTE)
    assert peak[0] == 1 << 20
    Trace(tmp_path / "run.h5").check_complete()


@pytest.mark.parametrize("options", [{}, {"compress": 1}], ids=["contiguous", "deflate"])
def test_gradients_that_add_up_after_they_were_written(tmp_path, options):
    model = nn.Linear(50, 50).to(torch.bfloat16)
    inputs = [torch.full((2, 50), 1.0 + k / 7, dtype=torch.bfloat16) for k in range(3)]
    terms = [torch.autograd.grad(model(x).sum(), model.weight)[0] for x in inputs]
    with tt.trace(model, out=tmp_path / "run.h5", **options) as tracer, tracer.step(0):
        # All in one micro-batch, so that its gradient is their sum.
        for x in inputs:
            with tracer.microbatch(0):
                model(x).sum().backward()
    expected = terms[0] + terms[1] + terms[2]
    value = Trace(tmp_path / "run.h5").value("param_grad", "weight", microbatch=0)
    np.testing.assert_array_equal(value, expected.to(torch.float64))


def test_a_step_that_throws_is_dropped_and_the_others_stay(tmp_path):
    tracer, model, optimizer = made(tmp_path / "run")
    twin, twin_model, twin_optimizer = made(tmp_path / "twin")
    train(tracer, model, optimizer, [0])
    train(twin, twin_model, twin_optimizer, [0])
    with pytest.raises(ZeroDivisionError), tracer.step(1):
        tracer.scalar("dropped", MEGABYTE)
        raise ZeroDivisionError
    # The number may be used again.
    train(tracer, model, optimizer, [1, 2])
    train(twin, twin_model, twin_optimizer, [1, 2])
    tracer.close()
    twin.close()
    Trace(tmp_path / "run").check_complete()
    for file in ("manifest.json", "rank_00000.h5"):
        assert (tmp_path / "run" / file).read_bytes() == (tmp_path / "twin" / file).read_bytes()


def test_a_first_step_that_throws_leaves_nothing(tmp_path):
    tracer, _, _ = made(tmp_path / "run")
    with pytest.raises(ZeroDivisionError), tracer, tracer.step(0):
        tracer.scalar("dropped", MEGABYTE)
        raise ZeroDivisionError
    assert list((tmp_path / "run").iterdir()) == []


def test_finished_steps_can_be_read_while_the_next_one_is_written(tmp_path):
    tracer, model, optimizer = made(tmp_path / "run.h5")
    for step in range(3):
        train(tracer, model, optimizer, [step])
        wait_for(tracer)
        trace = Trace(tmp_path / "run.h5")
        trace.check_complete()
        assert steps_of(tmp_path / "run.h5") == list(range(step + 1))
        assert trace.manifest["run"]["unfinished"] == [0]
        assert trace.manifest["run"]["recorded"]["steps"] == list(range(step + 1))
        assert trace.manifest["modules"]
    with tracer.step(3):
        for number in range(20):
            tracer.scalar(f"s{number}", MEGABYTE)
        wait_for(tracer)
        assert (tmp_path / "run.h5").stat().st_size > 20 << 20
        Trace(tmp_path / "run.h5").check_complete()
        assert steps_of(tmp_path / "run.h5") == [0, 1, 2]
    tracer.close()
    assert steps_of(tmp_path / "run.h5") == [0, 1, 2, 3]
    assert "unfinished" not in Trace(tmp_path / "run.h5").manifest["run"]


def wait_for(tracer):
    """Until the background thread has done what it has been given so far, or has failed."""
    done = threading.Event()
    tracer._output._writer.submit("waiting", done.set)
    while not done.wait(0.01) and tracer.failed is None:
        pass


def check_failure(tracer, capfd, *words):
    """The failure is told twice and nothing is thrown."""
    first = capfd.readouterr().err
    assert first.count("\n") == 1 and first.startswith("ttrace: rank 0 stopped recording: ")
    assert tracer.failed in first
    tracer.close()
    tracer.close()
    second = capfd.readouterr().err
    assert second.count("\n") == 1 and tracer.failed in second
    for word in words:
        assert word in second


def train_with_limit(tracer, model, optimizer, limit):
    """Two steps; the process may write no file larger than `limit` in the second one."""
    losses = train(tracer, model, optimizer, [0])
    wait_for(tracer)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        losses += train(tracer, model, optimizer, [1])
        wait_for(tracer)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    return losses + train(tracer, model, optimizer, [2])


@pytest.mark.parametrize("more", [0, 5_000, 60_000])
def test_a_full_disk_ends_the_recording_and_nothing_else(tmp_path, capfd, more):
    good = made(tmp_path / "good.h5")
    expected = train_with_limit(*good, resource.RLIM_INFINITY)
    wait_for(good[0])  # the limit below is the whole process's
    capfd.readouterr()
    tracer, model, optimizer = made(tmp_path / "run")
    # The size is reached in the second step: at its beginning, and further on.
    size = (tmp_path / "good.h5").stat().st_size // 3
    losses = train_with_limit(tracer, model, optimizer, size + more)
    assert losses == expected
    assert not model._forward_hooks
    check_failure(tracer, capfd, "File too large", "has the steps before that")
    assert [p.name for p in (tmp_path / "run").iterdir()] == ["rank_00000.h5"]
    with h5py.File(tmp_path / "run" / "rank_00000.h5") as file:
        assert [name for name in file if name != "manifest"] == ["step_000000"]
    shutil.copy(tmp_path / "run" / "rank_00000.h5", tmp_path / "left.h5")
    Trace(tmp_path / "left.h5").check_complete()
    assert steps_of(tmp_path / "left.h5") == [0]


def test_a_disk_full_from_the_start_leaves_no_file(tmp_path, capfd):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    tracer, model, optimizer = made(tmp_path / "run.h5")
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, before[1]))
    try:
        train(tracer, model, optimizer, [0, 1])
        wait_for(tracer)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    check_failure(tracer, capfd, "there is no trace of this rank")
    assert list(tmp_path.iterdir()) == []


def test_a_commit_that_fails_half_way_keeps_the_steps_before(tmp_path, monkeypatch, capfd):
    tracer, model, optimizer = made(tmp_path / "run.h5")
    train(tracer, model, optimizer, [0])
    wait_for(tracer)
    before = (tmp_path / "run.h5").read_bytes()
    truncate, calls = os.ftruncate, []

    def failing_once(*arguments):
        # The changes of earlier bytes have been written by then, and the file has no name.
        calls.append((tmp_path / "run.h5").exists())
        if len(calls) == 1:
            raise OSError(errno.EIO, "Input/output error")
        truncate(*arguments)

    monkeypatch.setattr(os, "ftruncate", failing_once)
    train(tracer, model, optimizer, [1])
    wait_for(tracer)
    check_failure(tracer, capfd, "Input/output error", "has the steps before that")
    assert calls[0] is False
    assert (tmp_path / "run.h5").read_bytes() == before
    Trace(tmp_path / "run.h5").check_complete()


def test_reads_may_return_less_than_was_asked_for(tmp_path, monkeypatch):
    train_two = made(tmp_path / "whole.h5")
    train(*train_two, [0, 1])
    train_two[0].close()
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda file, size, at: pread(file, max(1, size // 2), at))
    train_two = made(tmp_path / "halves.h5")
    train(*train_two, [0, 1])
    train_two[0].close()
    assert (tmp_path / "halves.h5").read_bytes() == (tmp_path / "whole.h5").read_bytes()


def test_another_ranks_file_that_cannot_be_read_is_told(tmp_path, capfd):
    tracer, model, optimizer = made(tmp_path / "run", mesh=tt.Mesh({"dp": 2}), rank=0)
    (tmp_path / "run" / "rank_00001.h5").write_text("damaged")
    train(tracer, model, optimizer, [0])
    tracer.close()
    assert "manifest.json" in tracer.failed and tracer.failed in capfd.readouterr().err


def test_a_file_that_its_rank_is_changing_is_looked_at_again(tmp_path, monkeypatch):
    tracer, model, optimizer = made(tmp_path / "run.h5")
    train(tracer, model, optimizer, [0])
    tracer.close()
    path, real, calls = tmp_path / "run.h5", h5py.File, []

    def half_changed(*arguments, **options):
        calls.append(path.exists())
        if len(calls) == 1:
            raise OSError("half of a commit")
        return real(*arguments, **options)

    monkeypatch.setattr(h5py, "File", half_changed)
    assert is_closed(path) and calls == [True, True]

    def taken_away(*_, **__):
        path.unlink()
        raise OSError("half of a commit")

    monkeypatch.setattr(h5py, "File", taken_away)
    assert not is_closed(path)


def test_a_folder_that_vanishes(tmp_path, capfd):
    tracer, model, optimizer = made(tmp_path / "run")
    train(tracer, model, optimizer, [0])
    wait_for(tracer)
    shutil.rmtree(tmp_path / "run")
    train(tracer, model, optimizer, [1])
    wait_for(tracer)
    train(tracer, model, optimizer, [2])
    check_failure(tracer, capfd, "No such file or directory")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made(tmp_path, capfd):
    (tmp_path / "file").write_text("in the way")
    tracer, model, optimizer = made(tmp_path / "file" / "run")
    train(tracer, model, optimizer, [0])
    check_failure(tracer, capfd, "Not a directory", "there is no trace of this rank")


def without_permission(folder, losses):
    """In a process of its own, since root may write anywhere."""
    torch.set_num_threads(1)  # the parent's threads are not in a fork, and would be waited for
    os.chdir(folder)
    os.chmod(".", 0o555)
    if os.geteuid() == 0:
        os.setuid(65534)
    tracer, model, optimizer = made("run.h5")
    assert "Permission denied" in tracer.failed
    assert train(tracer, model, optimizer, [0, 1]) == losses
    tracer.close()


def test_a_folder_without_permission(tmp_path, capfd):
    good, model, optimizer = made(tmp_path / "good.h5")
    losses = train(good, model, optimizer, [0, 1])
    good.close()
    (tmp_path / "closed").mkdir()
    child = torch.multiprocessing.get_context("fork").Process(
        target=without_permission, args=(tmp_path / "closed", losses)
    )
    child.start()
    child.join(600)
    assert child.exitcode == 0
    assert capfd.readouterr().err.count("Permission denied") == 2
    assert list((tmp_path / "closed").iterdir()) == []


def test_a_mistake_of_the_user_is_told_and_is_no_failure(tmp_path):
    tracer, model, _ = made(tmp_path / "run.h5")
    with complains(tracer, "recorded twice"), tracer.step(0):
        tracer.main_grads()
        model(torch.tensor([[1]]))
        tracer.params_after_step()
        tracer.params_after_step()
    assert tracer.failed is None
    tracer.close()


def in_child(tracer, model):
    """What a forked process does with a tracer that it inherited."""
    with tracer.step(1):
        model(torch.tensor([[1]]))
    assert "in the process that made it" in tracer.failed
    tracer.close()


def test_a_forked_process_neither_hangs_nor_writes(tmp_path):
    tracer, model, optimizer = made(tmp_path / "run.h5")
    train(tracer, model, optimizer, [0])
    wait_for(tracer)
    before = (tmp_path / "run.h5").read_bytes()
    child = torch.multiprocessing.get_context("fork").Process(target=in_child, args=(tracer, model))
    child.start()
    child.join(600)
    assert child.exitcode == 0
    assert (tmp_path / "run.h5").read_bytes() == before
    train(tracer, model, optimizer, [1])
    tracer.close()
    assert tracer.failed is None and steps_of(tmp_path / "run.h5") == [0, 1]


def test_the_thread_ends_with_close(tmp_path):
    others = set(threading.enumerate())
    tracer, model, optimizer = made(tmp_path / "run.h5")
    train(tracer, model, optimizer, [0])
    (own,) = set(threading.enumerate()) - others
    assert own.name == "ttrace-writer"
    tracer.close()
    assert not own.is_alive()
