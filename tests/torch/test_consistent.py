"""Consistent tensors: every rank's slice, in every layout, is the slice of the whole to the bit."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
import torch
from element_numbers import element_numbers, holds

import ttrace_torch as tt
from ttrace_torch.init import generate, normal, philox
from ttrace_torch.layout.placements import to_json

MESH = tt.Mesh({"x": 2, "y": 3, "z": 2})
SHAPE = (12, 7, 10)

LAYOUTS = {
    "rows": {"y": tt.Shard(0)},
    "uneven": {"y": tt.Shard(1)},
    "given sizes": {"y": tt.Shard(1, sizes=[1, 0, 6])},
    "last dimension": {"x": tt.Shard(-1)},
    "two dimensions": {"x": tt.Shard(0), "z": tt.Shard(2)},
    "one dimension twice": {"x": tt.Shard(0), "y": tt.Shard(0)},
    "zigzag": {"x": tt.Zigzag(0), "z": tt.Shard(0)},
    "segments": {"x": tt.Segments(2, [4, 2, 4])},
    "repeated segments": {"z": tt.Segments(0, [1, 2], repeat=4)},
    "strided": {"y": tt.Strided(0, 2), "z": tt.Shard(0)},
    "boxes": {"x": tt.Boxes([((0, 0, 0), (12, 3, 10)), ((0, 3, 0), (12, 4, 10))])},
    "boxes of a part": {
        "x": tt.Shard(0),
        "z": tt.Boxes([((0, 0, 0), (2, 7, 10)), ((2, 0, 0), (4, 7, 10))]),
    },
    "flat": {"y": tt.Flat([(0, 5), (5, 333), (333, 840)], SHAPE)},
    "flat of a part": {
        "x": tt.Shard(2),
        "y": tt.Flat([(200, 420), (0, 3), (3, 200)], (12, 7, 5)),
    },
    "only": {"x": tt.Only(1)},
    "replicated": {},
}


def check_slices(shape, placements, mesh=MESH):
    """Every rank's part is what the placements' table says it is of the whole."""
    whole = tt.consistent("w", shape).numpy().reshape(-1)
    ndim = len(shape)
    positive = {a: _counted_from_0(placement, ndim) for a, placement in placements.items()}
    entry = {"shape": list(shape), "placements": to_json(positive)}
    for rank in range(mesh.size):
        where = mesh.coordinate(rank)
        found = tt.consistent("w", shape, placements=placements, mesh=mesh, rank=rank)
        if holds(entry, where):
            numbers = element_numbers(entry, mesh.to_json(), where)
            assert tuple(found.shape) == numbers.shape
            np.testing.assert_array_equal(found.numpy(), whole[numbers])
        else:
            assert found.numel() == 0


def _counted_from_0(placement, ndim):
    dim = getattr(placement, "dim", None)
    return placement if dim is None or dim >= 0 else type(placement)(dim % ndim)


@pytest.mark.parametrize("placements", LAYOUTS.values(), ids=LAYOUTS)
def test_slices_are_those_of_the_whole(placements):
    check_slices(SHAPE, placements)


def test_slices_of_random_layouts_are_those_of_the_whole():
    draw = random.Random(1)
    for _ in range(150):
        shape = tuple(draw.choice((1, 2, 3, 5, 8, 13, 24)) for _ in range(draw.randint(1, 4)))
        placements = {}
        for axis in MESH.axes:
            dim = draw.randrange(len(shape))
            kind = draw.choice((tt.Replicate, tt.Shard, tt.Zigzag, tt.Strided))
            if kind is not tt.Replicate:
                arguments = (dim, draw.randint(1, 3)) if kind is tt.Strided else (dim,)
                placements[axis] = kind(*arguments)
        check_slices(shape, placements)


@pytest.mark.parametrize("block", [3, 7, 64])
def test_the_size_of_a_block_does_not_show(block, monkeypatch):
    monkeypatch.setattr(generate, "_BLOCK", block)
    for name in ("two dimensions", "segments", "flat of a part", "zigzag"):
        check_slices(SHAPE, LAYOUTS[name])


def test_a_block_may_be_one_element(monkeypatch):
    monkeypatch.setattr(generate, "_BLOCK", 1)
    check_slices((2, 3), {next(iter(MESH.axes)): tt.Shard(0)})


def test_values_go_by_the_row_major_position():
    key = philox.tensor_key(3, "layers.0.weight")
    words = philox.words_at(key, np.arange(6, dtype=np.uint64)).reshape(-1)[:21]
    found = tt.consistent("layers.0.weight", (3, 7), mean=1.0, scale=0.02, seed=3)
    np.testing.assert_array_equal(found.reshape(-1), normal.normal(words, 1.0, 0.02))


def test_a_slice_of_a_tensor_far_larger_than_the_memory_is_made_alone():
    rows = 2**40
    mesh = tt.Mesh({"tp": 4, "dp": 2})
    boxes = tt.Boxes([((i * rows // 4, 0), (rows // 4, 8)) for i in range(4)])
    placements = {"tp": boxes, "dp": tt.Shard(0, sizes=[rows // 4 - 2, 2])}
    last = tt.consistent("w", (rows, 8), placements=placements, mesh=mesh, rank=7)
    words = philox.words_at(philox.tensor_key(0, "w"), np.arange(4, dtype=np.uint64) + 2**41 - 4)
    np.testing.assert_array_equal(last, normal.normal(words, 0.0, 1.0).reshape(2, 8))


def test_small_shapes_have_as_many_elements_as_they_should():
    assert tt.consistent("w", ()).shape == ()
    assert tt.consistent("w", (3, 0, 2)).shape == (3, 0, 2)
    assert tt.consistent("w", ()) == tt.consistent("w", (1,))[0]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_other_types_are_float32_rounded_once_more(dtype):
    values = tt.consistent("w", (1000,), scale=0.02)
    assert torch.equal(tt.consistent("w", (1000,), scale=0.02, dtype=dtype), values.to(dtype))


def test_names_and_seeds_make_different_tensors_and_the_same_ones_again():
    one = tt.consistent("a", (100,))
    assert torch.equal(one, tt.consistent("a", (10, 10)).reshape(-1))
    assert not torch.isclose(one, tt.consistent("b", (100,))).any()
    assert not torch.isclose(one, tt.consistent("a", (100,), seed=1)).any()


def test_mean_and_scale_are_those_asked_for():
    values = tt.consistent("w", (200, 500), mean=1.0, scale=0.02)
    assert math.isclose(values.mean().item(), 1.0, abs_tol=4 * 0.02 / math.sqrt(1e5))
    assert math.isclose(values.std().item(), 0.02, rel_tol=0.01)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"placements": {"tp": tt.Shard(0)}}, "no mesh axis 'tp'"),
        ({"placements": {"y": tt.Partial()}}, "terms that its sum does not tell"),
        ({"placements": {"y": tt.Rows(0, "rows", 12)}}, 'stands in the index "rows"'),
        ({"placements": {"y": tt.Shard(3)}}, "cut along dimension 3"),
        ({"placements": {"y": tt.Shard(0, size=13)}}, "13 long as a whole"),
        ({"placements": {"y": tt.Shard(0, sizes=[1, 2, 3])}}, "add up to 6"),
        ({"placements": {"y": tt.Flat([(0, 1), (1, 2), (2, 12)], (12,))}}, "give Flat"),
        ({"dtype": torch.int32}, "no floating-point type"),
        ({"seed": -1}, "no integer from 0"),
        ({"seed": 2**64}, "no integer from 0"),
        ({"rank": 12}, "is outside the mesh"),
    ],
    ids=str,
)
def test_what_cannot_be_told_is_an_error(arguments, message):
    with pytest.raises(tt.TraceError, match=message):
        tt.consistent("w", SHAPE, mesh=MESH, **{"rank": 0, **arguments})
