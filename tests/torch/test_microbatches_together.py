"""Several micro-batches run as one: the reference's big batch, and what its entries say."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
import torch
from complaints import complains
from small_models import WIDTH, TiedGPT, batch, cross_entropy, seeded, train_step
from torch import nn
from trace_reading import Trace

import ttrace_torch as tt
from ttrace_torch import Layout

NUMBERS = [0, 1, 2]


def big_batch():
    parts = [batch(seed=number) for number in NUMBERS]
    return torch.cat([ids for ids, _ in parts]), torch.cat([targets for _, targets in parts])


def write_together(path, numbers=NUMBERS, **options):
    model = seeded(TiedGPT)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tt.trace(model, optimizer, out=path, **options) as tracer:
        with tracer.step(0), tracer.microbatch(numbers):
            ids, targets = big_batch()
            loss = tracer.loss(cross_entropy(model(ids), targets))
            tracer.scalar("entropy", loss.detach() * 2)
            loss.backward()
            optimizer.step()
    return Trace(path)


def put_together(entry, parts):
    """What the entry's `microbatches` says it is of the parts."""
    told = entry["microbatches"]
    if "shard" in told:
        return np.concatenate(parts, axis=told["shard"])
    return np.mean(parts, axis=0) if "mean" in told else np.sum(parts, axis=0)


def test_a_big_batch_says_what_it_is_of_the_micro_batches(tmp_path):
    together = write_together(tmp_path / "together.h5")
    model = seeded(TiedGPT)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tt.trace(model, optimizer, out=tmp_path / "apart.h5") as tracer:
        train_step(model, tracer, optimizer, microbatches=len(NUMBERS))
    apart = Trace(tmp_path / "apart.h5")
    compared = 0
    for (kind, name, step, microbatch, call), entry in together.entries.items():
        assert microbatch is None
        if "microbatches" not in entry:
            assert kind in ("param", "main_grad", "param_after_step")
            parts = [apart.value(kind, name, step)]
            whole = parts[0]
        elif kind == "scalar":
            continue
        else:
            parts = [apart.value(kind, name, step, number, call) for number in NUMBERS]
            whole = put_together(entry, parts)
        value = together.merged(entry)
        np.testing.assert_allclose(value, whole, rtol=2e-4, atol=1e-7, err_msg=f"{kind} {name}")
        compared += 1
    assert compared > 80

    def told(kind, name):
        return together.entry(kind, name).get("microbatches")

    assert told("input", "(model)") == {"shard": 0, "of": NUMBERS}
    assert told("grad_output", "layers.0.attn") == {"shard": 0, "of": NUMBERS}
    assert told("param_grad", "norm.bias") == {"sum": NUMBERS}
    assert told("loss", "loss") == told("scalar", "entropy") == {"mean": NUMBERS}
    with h5py.File(together.path) as file:
        assert "mb_0000" not in file["step_000000"]


class Sideways(nn.Module):
    """Turns [batch, length] into [length, batch, width]; returns a number and a constant too."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(9, WIDTH)
        self.inner = nn.Identity()

    def forward(self, ids, mask, positions):
        x = self.inner(self.embedding(ids).transpose(0, 1).contiguous())
        return x, x.square().sum(), x.mean()


def run_sideways(path, numbers, layouts, ids):
    model = seeded(Sideways)
    with tt.trace(model, out=path, layouts=layouts) as tracer:
        with tracer.step(0), tracer.microbatch(numbers):
            x, total, mean = model(ids, torch.ones(5, 5, dtype=torch.bool), torch.arange(5.0))
            (x.sum() + total + mean).backward()
    return Trace(path)


SIDEWAYS = [
    Layout("(model)", input_batch=[0, "mean", "mean"], output_batch=[1, "sum", None]),
    Layout("inner", input_batch=1, output_batch=1),
]


def test_layouts_say_where_the_batch_is(tmp_path):
    ids = torch.randint(9, (6, 5), generator=torch.Generator().manual_seed(1))
    trace = run_sideways(tmp_path / "run.h5", NUMBERS, SIDEWAYS, ids)

    def told(kind, name):
        return trace.entry(kind, name)["microbatches"]

    assert told("input", "(model)") == {"shard": 0, "of": NUMBERS}
    # A mask of integers that all micro-batches share has no mean; it is left out.
    assert trace.names("input") == ["(model)", "(model)[positions]", "embedding", "inner"]
    assert told("input", "(model)[positions]") == {"mean": NUMBERS}
    assert told("output", "(model)") == told("input", "inner") == {"shard": 1, "of": NUMBERS}
    assert told("output", "(model)[1]") == {"sum": NUMBERS}
    assert told("output", "(model)[2]") == {"mean": NUMBERS}
    # The gradient by a sum is the same for its parts, that by a mean is spread over them.
    assert told("grad_output", "(model)[1]") == {"mean": NUMBERS}
    assert told("grad_output", "(model)[2]") == {"sum": NUMBERS}
    assert told("grad_output", "inner") == {"shard": 1, "of": NUMBERS}
    for number, part in zip(NUMBERS, ids.chunk(3), strict=True):
        apart = run_sideways(tmp_path / f"{number}.h5", number, SIDEWAYS, part)
        value = apart.value("output", "inner", microbatch=number)
        whole = trace.value("output", "inner")[:, 2 * number : 2 * number + 2]
        np.testing.assert_array_equal(value, whole)


def test_two_lists_in_one_step_may_not_run_the_same_module(tmp_path):
    model = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
    tracer = tt.trace(model, out=tmp_path / "run.h5")
    with tracer.step(0):
        with tracer.microbatch([0, 1]):
            model[0](torch.ones(2, 2)).sum().backward()
        with tracer.microbatch([2, 3], dim=0):
            model[1](torch.ones(2, 2)).sum().backward()
            with complains(tracer, "input/0.* recorded twice"):
                model[0](torch.ones(2, 2))
            # Autograd would add up gradients of different micro-batches.
            with complains(tracer, "param_grad/0.weight.* recorded twice"):
                model[0].weight.sum().backward()
        # A backward apart from its forward, and single micro-batches beside.
        with tracer.microbatch(4):
            y = model[0](torch.ones(2, 2)).sum()
        with tracer.microbatch(4):
            y.backward()
    tracer.close()
    trace = Trace(tmp_path / "run.h5")
    assert trace.entry("output", "0")["microbatches"] == {"shard": 0, "of": [0, 1]}
    assert trace.entry("param_grad", "1.weight")["microbatches"] == {"sum": [2, 3]}
    assert "microbatches" not in trace.entry("output", "0", microbatch=4)


def test_lists_that_are_refused(tmp_path):
    layouts = [Layout("0", output_batch=2)]
    tracer = tt.trace(nn.Sequential(nn.Linear(2, 2)), out=tmp_path / "run.h5", layouts=layouts)
    with tracer.step(0):
        for numbers in ([], [0, 0], [-1, 0]):
            with complains(tracer, r"micro-batches \["), tracer.microbatch(numbers):
                pass
        with tracer.microbatch([0, 1]):
            with complains(tracer, "along dimension 2, but .* 2 dimension"):
                tracer._job.names.model(torch.ones(2, 2))
            with complains(tracer, "tokens.* torch.int64 has no mean"):
                tracer.scalar("tokens", 4)
    with pytest.raises(tt.TraceError, match='Layout\\("0"\\): .* along "max"'):
        Layout("0", input_batch="max")
