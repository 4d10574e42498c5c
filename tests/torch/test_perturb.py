"""Noise runs of any layout: an element is perturbed by the same number wherever it lies.

The modules return ones, so that an output is 1 + ε·u.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from fake_ranks import playing
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from trace_reading import Trace

import ttrace_torch as tt
from ttrace_torch.init.normal import uniform
from ttrace_torch.init.philox import noise_key, words_at
from ttrace_torch.perturb import perturber

EPSILON = 0.25
SHAPE = (4, 6, 10)


class Once(nn.Module):
    """Times one: what it returns is a new tensor."""

    def forward(self, x):
        return x * 1


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Once()
        self.second = Once()

    def forward(self, x):
        return self.second(self.first(x))


def perturbed(path, x=None, batches=(0,), perturb=None, model=None, **options):
    """The last output for each micro-batch of a step of `model`."""
    model = Model() if model is None else model
    perturb = tt.Perturb(3, EPSILON) if perturb is None else perturb
    found = []
    with tt.trace(model, out=path, perturb=perturb, **options) as tracer, tracer.step(1):
        for batch in batches:
            with tracer.microbatch(batch):
                found.append(model(torch.ones(SHAPE) if x is None else x))
    return found


def factors(name="first", batch=0, call=0, shape=SHAPE):
    """1 + ε·u by the definition, binary64."""
    blocks = np.arange(np.prod(shape) // 4 + 1, dtype=np.uint64)
    words = words_at(noise_key(3, 1, batch, call, name), blocks).reshape(-1)[: np.prod(shape)]
    return torch.from_numpy(1 + EPSILON * uniform(words).astype(np.float64).reshape(shape))


def expected(*arguments, **options):
    """What ones are perturbed to."""
    return factors(*arguments, **options).float()


def test_the_perturbance_is_that_of_the_definition(tmp_path):
    (found,) = perturbed(tmp_path / "run.h5")
    assert torch.equal(found, expected())


@pytest.mark.parametrize(
    "placements",
    [
        {"tp": tt.Shard(2)},
        {"dp": tt.Shard(0), "tp": tt.Shard(1)},
        {"tp": tt.Zigzag(1, size=6)},
        {"dp": tt.Segments(2, [6, 4])},
    ],
    ids=str,
)
def test_a_cut_activation_is_perturbed_as_the_whole_one(tmp_path, placements):
    mesh = tt.Mesh({"dp": 2, "tp": 2})
    (whole,) = perturbed(tmp_path / "whole.h5")
    layouts = [tt.Layout("*", input=placements, output=placements)]
    for rank in range(4):
        part = tt.consistent("x", SHAPE, placements=placements, mesh=mesh, rank=rank)
        options = {"mesh": mesh, "rank": rank, "layouts": layouts}
        perturbed(tmp_path / "run", torch.ones(part.shape), **options)
    value = Trace(tmp_path / "run").value("output", "first", step=1, microbatch=0)
    np.testing.assert_array_equal(value, whole)


def test_terms_of_a_sum_are_multiplied_by_the_factors_of_the_sum(tmp_path):
    layouts = [tt.Layout("*", output={"tp": tt.Partial()})]
    for rank in range(2):
        options = {"mesh": tt.Mesh({"tp": 2}), "rank": rank, "layouts": layouts}
        (found,) = perturbed(tmp_path / "run", **options)
        assert torch.equal(found, expected())


@pytest.mark.parametrize("placement", [Shard(1), Partial(), Replicate()], ids=str)
def test_a_dtensor_is_perturbed_as_the_whole_tensor_and_stays_one(tmp_path, placement):
    for rank in range(2):
        with playing(rank, 2):
            mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
            cut = slice(3 * rank, 3 * rank + 3) if placement == Shard(1) else slice(None)
            local = torch.ones(SHAPE)[:, cut].clone().requires_grad_()
            x = DTensor.from_local(local, mesh, [placement], run_check=False)
            options = {"mesh": tt.Mesh({"tp": 2}), "rank": rank}
            (found,) = perturbed(tmp_path / "run", x, **options)
            assert isinstance(found, DTensor)
            assert found.placements == (placement,) and found.shape == SHAPE
            assert torch.equal(found.to_local(), expected()[:, cut])
            gradients = [Replicate() if placement.is_partial() else placement]
            found.to_local(grad_placements=gradients).sum().backward()
            assert torch.equal(local.grad, expected()[:, cut])


def test_micro_batches_that_run_as_one_are_perturbed_as_alone(tmp_path):
    alone = perturbed(tmp_path / "alone.h5", batches=(5, 2))
    big = torch.ones(8, *SHAPE[1:])
    (together,) = perturbed(tmp_path / "together.h5", big, batches=([5, 2],))
    assert torch.equal(together, torch.cat(alone))
    (along_1,) = perturbed(
        tmp_path / "along1.h5",
        torch.ones(4, 12, 10),
        batches=([5, 2],),
        layouts=[tt.Layout("*", output_batch=1, input_batch=1)],
    )
    assert torch.equal(along_1, torch.cat(alone, dim=1))


def test_micro_batches_that_run_as_one_and_are_cut_are_perturbed_as_alone(tmp_path):
    alone = torch.cat(perturbed(tmp_path / "alone.h5", batches=(0, 1, 2)))
    zigzag = {"cp": tt.Zigzag(0, size=12)}
    layouts = [tt.Layout("*", output=zigzag, input=zigzag)]
    for rank in range(2):
        options = {"mesh": tt.Mesh({"cp": 2}), "rank": rank, "layouts": layouts}
        x = torch.ones(6, *SHAPE[1:])
        (found,) = perturbed(tmp_path / "run", x, batches=([0, 1, 2],), **options)
        mine = torch.cat([alone.chunk(4)[rank], alone.chunk(4)[3 - rank]])
        assert torch.equal(found, mine)


def test_micro_batches_of_unequal_length_are_perturbed_together(tmp_path):
    (found,) = perturbed(tmp_path / "run.h5", torch.ones(3, 5), batches=([0, 1],))
    assert torch.equal(found, expected(batch="[0, 1]", shape=(3, 5)))


class Nested(nn.Module):
    """Hands on what its inner module returned, beside a parameter and an integer."""

    def __init__(self):
        super().__init__()
        self.inner = Once()
        self.bias = nn.Parameter(torch.ones(3))

    def forward(self, x):
        x = self.inner(x)
        return x, self.bias, torch.arange(3), x + 0


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Nested()
        self.again = Once()

    def forward(self, x):
        x, bias, _, y = self.block(x)
        assert (bias == 1).all()
        return x, y, self.again(self.again(torch.ones(SHAPE)))


def test_everywhere_perturbs_every_output_of_every_call_once(tmp_path):
    perturb = tt.Perturb(3, EPSILON, everywhere=True)
    path = tmp_path / "run.h5"
    ((x, y, z),) = perturbed(path, perturb=perturb, model=Deep())
    inner = expected("block.inner")
    assert torch.equal(x, inner)
    assert torch.equal(y, (inner * factors("block[3]")).float())
    assert torch.equal(z, (expected("again") * factors("again", call=1)).float())
    assert Trace(path).manifest["run"]["noise"] == {"seed": 3, "epsilon": EPSILON, "at": "*"}


def test_the_module_to_perturb_can_be_named(tmp_path):
    (found,) = perturbed(tmp_path / "run.h5", perturb=tt.Perturb(3, EPSILON, at="second"))
    assert torch.equal(found, expected("second"))
    assert Trace(tmp_path / "run.h5").manifest["run"]["noise"]["at"] == "second"


def test_a_stage_without_the_named_module_perturbs_nothing(tmp_path):
    perturb = tt.Perturb(3, EPSILON, at="embedding")
    options = {"mesh": tt.Mesh({"pp": 2}), "rank": 1}
    (found,) = perturbed(tmp_path / "run", perturb=perturb, **options)
    assert (found == 1).all()
    with pytest.raises(tt.TraceError, match="nothing was perturbed"):
        perturbed(tmp_path / "run.h5", perturb=perturb)


def test_a_part_that_cannot_be_told_is_an_error(tmp_path):
    options = {"mesh": tt.Mesh({"tp": 2}), "rank": 0}
    layouts = [tt.Layout("first", output={"tp": tt.Rows(0, "rows", 8)})]
    with pytest.raises(tt.TraceError, match='stands in the index "rows"'):
        perturbed(tmp_path / "run", layouts=layouts, **options)
    layouts = [tt.Layout("first", output={"tp": tt.Shard(0, size=7)})]
    (found,) = perturbed(tmp_path / "run", layouts=layouts, **options)
    assert found.shape == SHAPE
    layouts = [tt.Layout("first", output={"tp": tt.Shard(0, size=9)})]
    with pytest.raises(tt.TraceError, match="this rank holds"):
        perturbed(tmp_path / "run", layouts=layouts, **options)


def test_perturb_refuses_a_module_and_all_of_them():
    with pytest.raises(tt.TraceError, match="not both"):
        tt.Perturb(1, at="first", everywhere=True)


@pytest.mark.parametrize(
    ("rounds", "convolves", "epsilon"),
    [
        ({}, True, 2.0**-23),
        ({"convolution": "tf32"}, False, 2.0**-23),
        ({"convolution": "tf32"}, True, 2.0**-10),
        ({"matmul": "tf32"}, False, 2.0**-10),
    ],
)
def test_factors_that_a_gpu_rounds_are_perturbed_as_much(monkeypatch, rounds, convolves, epsilon):
    class OnGpu:
        is_cuda, dtype = True, torch.float32

    monkeypatch.setattr(perturber, "narrow_products", lambda recurs: rounds)
    made = perturber.Perturber(tt.Perturb(1), None, 0, convolves=convolves)
    assert made._natural_epsilon(OnGpu()) == epsilon
