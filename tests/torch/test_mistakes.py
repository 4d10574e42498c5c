"""Everyday mistakes, each told in one sentence with the way out, and none ends a training job."""

from __future__ import annotations

from contextlib import suppress

import pytest
import torch
from process_groups import run_ranks
from small_models import WIDTH, TiedGPT, batch, cross_entropy, seeded, train_step
from torch import distributed, nn
from trace_reading import Trace

import ttrace_torch as tt


def adam(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-3)


def linear(width=WIDTH):
    return seeded(lambda: nn.Linear(width, width))


def test_a_healthy_run_is_told_nothing(tmp_path, capsys):
    model = seeded(TiedGPT)
    optimizer = adam(model)
    with tt.trace(model, optimizer, out=tmp_path / "run.h5") as tracer:
        train_step(model, tracer, optimizer)
    assert tracer.incomplete == [] and capsys.readouterr().err == ""


def test_an_optimizer_of_other_parameters(tmp_path, capsys):
    tt.trace(linear(), adam(linear()), out=tmp_path / "run.h5")
    said = capsys.readouterr().err
    assert "holds none of the model's parameters" in said and "make it after the model" in said


def test_an_optimizer_of_some_parameters(tmp_path, capsys):
    model = linear()
    tt.trace(model, torch.optim.SGD([model.weight], lr=0.1), out=tmp_path / "run.h5")
    assert "bias of 2 trained parameters are in no group" in capsys.readouterr().err
    model.bias.requires_grad_(False)
    tt.trace(model, torch.optim.SGD([model.weight], lr=0.1), out=tmp_path / "run.h5")
    assert capsys.readouterr().err == ""


def test_active_dropout(tmp_path, capsys):
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.1), nn.Dropout(0.0))
    for training, times in ((True, 1), (False, 0)):
        model.train(training)
        with tt.trace(model, out=tmp_path / "run.h5") as tracer:
            for step in range(2):
                with tracer.step(step):
                    model(torch.ones(1, 2))
        said = capsys.readouterr().err
        assert said.count("dropout is active in 1, which") == times


class Noisy(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        return x + self.size * torch.randn_like(x) if self.size else x


def test_random_numbers_in_the_forward(tmp_path, capsys):
    for size, times in ((0.1, 1), (0, 0)):
        model = nn.Sequential(Noisy(size))
        with tt.trace(model, out=tmp_path / "run.h5") as tracer:
            for step in range(2):
                with tracer.step(step):
                    for _ in range(2):
                        model(torch.rand(1, 2))  # random data is not the model's
        assert capsys.readouterr().err.count("draws random numbers in its forward") == times


def test_no_optimizer(tmp_path, capsys):
    model = linear()
    with tt.trace(model, out=tmp_path / "run.h5") as tracer, tracer.step(0):
        model(torch.ones(1, WIDTH)).sum().backward()
    assert "no optimizer was given" in capsys.readouterr().err
    with tt.trace(model, out=tmp_path / "grads.h5") as tracer, tracer.step(0):
        model(torch.ones(1, WIDTH)).sum().backward()
        tracer.main_grads()
    assert capsys.readouterr().err == ""


def test_nothing_recorded(tmp_path, capsys):
    tt.trace(linear(), out=tmp_path / "run.h5").close()
    assert "no step was recorded; put each training step into" in capsys.readouterr().err


def test_steps_that_are_never_reached(tmp_path, capsys):
    model = linear()
    for steps, words in (
        ("7", "no step was recorded, the job went up to step 1"),
        ("1,5", "step(s) 5 were to be recorded and never ran to their end"),
        ("1-", ""),
    ):
        with tt.trace(model, out=tmp_path / f"{steps}.h5", steps=steps) as tracer:
            for step in range(2):
                with tracer.step(step):
                    model(torch.ones(1, WIDTH))
        said = capsys.readouterr().err
        assert words in said and bool(words) == bool(said)


def ranks_rank(rank, folder):
    with pytest.raises(tt.TraceError, match=r"has 4 rank\(s\), the job has 2; give trace\(mesh="):
        tt.trace(linear(), out=folder / "mesh", mesh=tt.Mesh({"tp": 4}))
    model = linear()
    with tt.trace(model, out=folder / "bare") as tracer, tracer.step(0):
        model(torch.full((1, WIDTH), 1.0 + rank)).sum().backward()
    # Another job's rank 1 has written into the same folder.
    tracer = tt.trace(model, out=folder / "shared", run={"id": f"of rank {rank}"})
    # Else one of them may have ended before the other begins, and then is an earlier job.
    distributed.barrier()
    with tracer.step(0):
        model(torch.ones(1, WIDTH))
    tracer.close()


def test_meshes_wrappers_and_folders(tmp_path, capfd):
    run_ranks(2, ranks_rank, tmp_path)
    said = capfd.readouterr().err
    assert said.count("2 ranks run a model without any wrapper") == 2
    assert "call trace() after wrapping" in said
    bare = Trace(tmp_path / "bare")
    assert bare.manifest["meshes"][""]["axes"] == [{"name": "dp", "size": 2}]
    assert bare.entry("output", "(model)", microbatch=1)["held_at"] == {"dp": [1]}
    assert "are of another run than those of the other ranks" in said
    assert not (tmp_path / "shared" / "manifest.json").exists()


def dying_rank(rank, folder):
    # Without communication, which the others would wait in.
    model = linear()
    optimizer = adam(model)
    for name, dies_in in (("first", 0), ("second", 1)):
        with suppress(ZeroDivisionError):
            with tt.trace(model, optimizer, out=folder / name, mesh=tt.Mesh({"dp": 2})) as tracer:
                for step in range(2):
                    with tracer.step(step):
                        model(torch.ones(1, WIDTH)).sum().backward()
                        optimizer.step()
                        if rank == 1 and step == dies_in:
                            raise ZeroDivisionError
        distributed.barrier()


def test_a_rank_that_dies_leaves_a_manifest_that_says_so(tmp_path):
    run_ranks(2, dying_rank, tmp_path)
    first, second = (Trace(tmp_path / name).manifest["run"] for name in ("first", "second"))
    assert {"tensors": "*", "ranks": [1]}.items() <= first["incomplete"][0].items()
    assert "before it had finished" in first["incomplete"][0]["reason"]
    [lacking] = [e for e in second["incomplete"] if e["tensors"] == "1/*"]
    assert lacking["ranks"] == [1] and "did not record step 1" in lacking["reason"]
    assert second["recorded"]["steps"] == [0]


class Awkward(nn.Module):
    """A model whose outputs the collector cannot look at."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return Broken({"y": self.inner(x)})


class Broken(dict):
    def items(self):
        raise ValueError("not to be looked at")


def losses_of(out, model, awkward):
    """The losses of three steps with every mistake in the calls, traced or not."""
    optimizer = adam(model)
    tracer = tt.trace(model, optimizer, out=out) if out else None
    losses = []
    for step in range(3):
        if tracer is None:
            losses.append(trained(model, optimizer, awkward))
            continue
        with tracer.step(1 if step == 2 else step), tracer.step("inner"[:0] or 5):
            with tracer.microbatch([0, 0]), tracer.microbatch(2, of=1):
                losses.append(trained(model, optimizer, awkward))
            tracer.index("rows", torch.ones(2, 2))
            tracer.scalar("a/b", 1.0)
            tracer.scalar("odd", "text")
            tracer.main_grads()
            tracer.close()
    return losses, tracer


def trained(model, optimizer, awkward):
    x, y = batch()
    if awkward:
        loss = model(torch.ones(2, WIDTH))["y"].square().mean()
    else:
        loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


@pytest.mark.parametrize("make", [TiedGPT, Awkward])
def test_no_mistake_ends_or_changes_the_training(tmp_path, make):
    awkward = make is Awkward
    plain, _ = losses_of(None, seeded(make), awkward), None
    traced, tracer = losses_of(tmp_path / "run.h5", seeded(make), awkward)
    assert traced == plain[0]
    assert tracer.failed is None and len(tracer.incomplete) >= 5
    trace = Trace(tmp_path / "run.h5")
    assert trace.manifest["run"]["incomplete"]
    assert trace.names("main_grad")
