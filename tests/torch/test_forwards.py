"""Micro-batches are counted by the forwards of the whole model, where nobody numbers them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from complaints import complains
from process_groups import run_ranks
from small_models import TiedGPT, batch, cross_entropy, seeded
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.utils.checkpoint import checkpoint
from trace_reading import Trace

import ttrace_torch as tt

SHARE = 3


def train(tracer, model, numbers, count):
    """One step over the micro-batches with these numbers, which decide the data."""
    with tracer.step(0):
        for number in numbers:
            ids, labels = batch(seed=number)
            loss = tracer.loss(cross_entropy(model(ids), labels))
            (loss / count).backward()
            with torch.no_grad():
                model(ids)
        tracer.main_grads()
    tracer.close()


def parallel_rank(rank, folder):
    for name, wrap in (("ddp", nn.parallel.DistributedDataParallel), ("fsdp2", fully_shard)):
        for dealing, numbers in (
            ("blocks", range(rank * SHARE, (rank + 1) * SHARE)),
            ("turns", range(rank, 2 * SHARE, 2)),
        ):
            model = wrap(seeded(TiedGPT))
            out = folder / f"{name}_{dealing}"
            tracer = tt.trace(model, out=out, interleaved=dealing == "turns")
            train(tracer, model, numbers, SHARE)
            assert tracer.incomplete == []


def test_data_parallel_ranks_count_what_one_process_counts(tmp_path):
    model = seeded(TiedGPT)
    train(tt.trace(model, out=tmp_path / "one.h5"), model, range(2 * SHARE), 2 * SHARE)
    run_ranks(2, parallel_rank, tmp_path)
    one = Trace(tmp_path / "one.h5")
    assert {key[3] for key in one.entries if key[0] == "loss"} == set(range(2 * SHARE))
    for name in ("ddp_blocks", "ddp_turns", "fsdp2_blocks", "fsdp2_turns"):
        run = Trace(tmp_path / name)
        run.check_complete()
        assert set(run.entries) == set(one.entries), name
        for kind, tensor, step, number, call in one.entries:
            scale = run.entry(kind, tensor, step, number, call).get("scale", 1.0)
            ours = scale * run.value(kind, tensor, step, number, call)
            theirs = one.value(kind, tensor, step, number, call)
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.gpt = TiedGPT()

    def forward(self, ids):
        return checkpoint(self.gpt, ids, use_reentrant=False)


def test_recomputation_is_no_forward(tmp_path):
    model = seeded(Checkpointed)
    train(tt.trace(model, out=tmp_path / "run.h5"), model, range(2), 2)
    trace = Trace(tmp_path / "run.h5")
    assert {key[3] for key in trace.entries if key[0] == "param_grad"} == {0, 1}


def test_two_forwards_before_a_backward_ask_for_microbatch(tmp_path):
    model = seeded(TiedGPT)
    tracer = tt.trace(model, out=tmp_path / "run.h5")
    with complains(tracer, "forward twice before a backward"), tracer.step(0):
        losses = [cross_entropy(model(batch(n)[0]), batch(n)[1]) for n in range(2)]
        sum(losses).backward()
    tracer.close()
    outputs = [key for key in Trace(tmp_path / "run.h5").entries if key[:2] == ("output", "norm")]
    assert sorted(key[3:] for key in outputs) == [(0, 0), (0, 1)]


def changed_rank(rank, folder):
    model = nn.parallel.DistributedDataParallel(seeded(TiedGPT))
    tracer = tt.trace(model, out=folder, perturb=tt.Perturb(1))
    train(tracer, model, range(2), 2)
    needs = any("needs `with tracer.microbatch(n, of=count)" in t for t in tracer.incomplete)
    assert needs == (rank == 1)


def test_a_noise_run_on_several_ranks_asks_for_microbatch(tmp_path):
    run_ranks(2, changed_rank, tmp_path / "run")
    incomplete = Trace(tmp_path / "run").manifest["run"]["incomplete"]
    assert {"tensors": "0/*", "ranks": [1]}.items() <= incomplete[0].items()


@pytest.mark.parametrize("first", [0, 4])
def test_numbers_of_the_user_count(tmp_path, first):
    model = seeded(TiedGPT)
    with tt.trace(model, out=tmp_path / "run.h5") as tracer, tracer.step(0):
        for number in range(first, first + 2):
            with tracer.microbatch(number):
                cross_entropy(model(batch()[0]), batch()[1]).backward()
    trace = Trace(tmp_path / "run.h5")
    assert {key[3] for key in trace.entries if key[0] == "output"} == {first, first + 1}
