"""The words of a layout: random tensors cut in every way, and each way against its origin."""

from __future__ import annotations

import dataclasses
import random
from math import prod

import numpy as np
import pytest
import torch
from complaints import complains
from element_numbers import element_numbers
from merging import merged
from support.long_cases import chosen
from torch import nn
from torch.distributed.tensor.placement_types import _StridedShard
from trace_reading import Trace

import ttrace_torch as tt
from ttrace_torch import (
    Boxes,
    Flat,
    Mesh,
    Only,
    Partial,
    Replicate,
    Rows,
    Segments,
    Shard,
    Strided,
    Zigzag,
)
from ttrace_torch.layout.placements import KINDS, Placement, from_json, kind_of, to_json

CASES = 120


def elements(ranges):
    return [i for start, length in ranges for i in range(start, start + length)]


def shapes_left(shape, mesh, placements):
    """The different shapes that the placements leave at the coordinates."""
    entry = {"shape": shape, "placements": to_json(placements)}
    parts = [element_numbers(entry, mesh.to_json(), where) for where in mesh.coordinates()]
    return sorted({part.shape for part in parts})


def parts_of(draw, extent, parts):
    stops = sorted(draw.randint(0, extent) for _ in range(parts - 1))
    return [stop - start for start, stop in zip([0, *stops], [*stops, extent], strict=True)]


def random_segments(draw, dim, extent, parts):
    repeat = draw.choice([r for r in (1, 2, 3) if extent % r == 0])
    segments = parts_of(draw, extent // repeat, draw.randint(1, 3))
    sizes = [parts_of(draw, segment, parts) for segment in segments]
    return Segments(dim, segments, repeat, draw.choice([None, sizes]))


def random_boxes(draw, dim, shape, parts):
    sizes = parts_of(draw, shape[dim], parts)
    offset, boxes = 0, []
    for size in sizes:
        boxes.append(([0] * len(shape), list(shape)))
        boxes[-1][0][dim], boxes[-1][1][dim] = offset, size
        offset += size
    draw.shuffle(boxes)
    return Boxes(boxes)


def random_placement(draw, shape, left, size):
    dim = draw.randrange(len(shape))
    kinds = ["shard", "zigzag", "strided", "replicate"]
    # Words with numbers of their own say the same of every coordinate.
    if len(left) == 1:
        kinds += ["sizes", "segments", "boxes"]
    kind = draw.choice(kinds)
    if kind == "shard":
        return Shard(dim, size=shape[dim])
    if kind == "zigzag":
        return Zigzag(dim, size=shape[dim])
    if kind == "strided":
        return Strided(dim, draw.randint(1, 4), size=shape[dim])
    if kind == "sizes":
        return Shard(dim, sizes=parts_of(draw, left[0][dim], size))
    if kind == "segments":
        return random_segments(draw, dim, left[0][dim], size)
    if kind == "boxes":
        return random_boxes(draw, dim, left[0], size)
    return Replicate()


def random_layout(draw, mesh):
    """A shape and placements on the mesh that cut a tensor of it."""
    shape = tuple(draw.choice((1, 2, 3, 4, 6, 8, 9, 12)) for _ in range(draw.randint(1, 3)))
    flat = draw.choice([*mesh.axes, None, None])
    placements = {}
    for axis, size in mesh.axes.items():
        left = shapes_left(shape, mesh, placements)
        if axis != flat:
            placements[axis] = random_placement(draw, shape, left, size)
    left = shapes_left(shape, mesh, placements)
    if flat is not None and len(left) == 1:
        sizes = parts_of(draw, prod(left[0]), mesh.axes[flat])
        starts = [sum(sizes[:i]) for i in range(len(sizes))]
        ranges = [(start, start + size) for start, size in zip(starts, sizes, strict=True)]
        placements[flat] = Flat(ranges, left[0])
    return shape, placements


@pytest.mark.parametrize(
    "axes",
    chosen("meshes of random tensors", [{"a": 2, "b": 3, "c": 2}, {"a": 3}], [{"a": 4, "b": 2}]),
    ids=str,
)
def test_random_tensors_are_put_together_again(tmp_path, axes):
    draw, mesh = random.Random(len(axes)), Mesh(axes)
    layouts = [random_layout(draw, mesh) for _ in range(CASES)]
    for rank, where in enumerate(mesh.coordinates()):
        with tt.trace(
            nn.Linear(1, 1), out=tmp_path / "run", mesh=mesh, rank=rank, kinds=["scalar"]
        ) as tracer:
            with tracer.step(0):
                for number, (shape, placements) in enumerate(layouts):
                    order = [axis for axis in mesh.axes if axis in placements]
                    json = to_json({axis: placements[axis] for axis in order})
                    entry = {"shape": shape, "placements": json}
                    part = torch.tensor(element_numbers(entry, mesh.to_json(), where))
                    whole_part = Flat in map(type, placements.values()) and part.numel() % 2
                    if whole_part:
                        # A buffer of which only the rank's own range counts.
                        rest = {a: p for a, p in json.items() if "flat" not in p}
                        entry = {"shape": shape, "placements": rest}
                        part = torch.tensor(element_numbers(entry, mesh.to_json(), where))
                    tracer.scalar(f"case{number}", part, placements)
    trace = Trace(tmp_path / "run")
    for reading in (trace, merged(trace)):
        for number, (shape, placements) in enumerate(layouts):
            value = reading.value("scalar", f"case{number}")
            expected = np.arange(prod(shape)).reshape(shape)
            np.testing.assert_array_equal(value, expected, err_msg=f"{shape} {placements}")
    words = {type(placement) for _, placements in layouts for placement in placements.values()}
    assert words == {Shard, Zigzag, Strided, Segments, Boxes, Flat, Replicate}


def test_strided_cuts_as_dtensor_does():
    for extent in range(30):
        for stride in (1, 2, 3, 4):
            for parts in (1, 2, 3, 5):
                strided = _StridedShard(0, split_factor=stride)
                shards, _ = strided._split_tensor(torch.arange(extent), parts, with_padding=False)
                for index, shard in enumerate(shards):
                    found = Strided(0, stride).cut(extent, parts, index)
                    assert elements(found) == shard.tolist(), (extent, stride, parts, index)


def test_zigzag_cuts_as_context_parallelism_does():
    """As Megatron's get_batch_on_this_cp_rank takes the chunks of an even sequence."""
    for parts in (1, 2, 4):
        sequence = torch.arange(2 * parts * 3)
        chunks = sequence.view(2 * parts, -1)
        for index in range(parts):
            own = chunks.index_select(0, torch.tensor([index, 2 * parts - index - 1]))
            found = Zigzag(0).cut(sequence.numel(), parts, index)
            assert elements(found) == own.reshape(-1).tolist()
    # 10 elements in 4 chunks: 3, 3, 3, 1.
    assert Zigzag(0).cut(10, 2, 0) == [(0, 3), (9, 1)]
    assert Zigzag(0).cut(10, 2, 1) == [(3, 6)]


def test_segments_of_grouped_attention():
    # 4 query heads and 2 key-value heads of width 2, over 2 ranks; q, k and v are cut each.
    q, k, v = torch.arange(16).split([8, 4, 4])
    for index in range(2):
        own = torch.cat([part.chunk(2)[index] for part in (q, k, v)])
        assert elements(Segments(0, [8, 4, 4]).cut(16, 2, index)) == own.tolist()
    # Gate and up of two experts, one after the other; the parts given.
    cut = Segments(0, [3, 3], repeat=2, sizes=[[1, 2], [2, 1]])
    assert elements(cut.cut(12, 2, 0)) == [0, 3, 4, 6, 9, 10]
    assert elements(cut.cut(12, 2, 1)) == [1, 2, 5, 7, 8, 11]


def leaves(kind):
    """The kinds below a base class that can be constructed."""
    return (
        {kind}
        if dataclasses.is_dataclass(kind)
        else set().union(*map(leaves, kind.__subclasses__()))
    )


def test_the_table_has_every_kind():
    assert set(KINDS) == leaves(Placement) and len(set(KINDS)) == len(KINDS)
    assert len({kind.json_member for kind in KINDS}) == len(KINDS)


def test_a_kind_with_a_method_missing_cannot_be_made():
    class Lacking(Placement):
        json_member = "lacking"

        def to_json(self):
            return {"lacking": True}

        def whole_extents(self, local, ranks):
            return list(local)

    with pytest.raises(TypeError, match="local_ranges"):
        Lacking()


@pytest.mark.parametrize(
    "placement",
    [
        Shard(1),
        Shard(0, sizes=[3, 1]),
        Zigzag(0),
        Segments(0, [4, 2], repeat=2, sizes=[[3, 1], [1, 1]]),
        Strided(1, 3),
        Boxes([((0, 0), (2, 1)), ((0, 1), (2, 3))]),
    ],
    ids=str,
)
def test_what_gives_extents_is_read_back(placement):
    assert from_json(placement.to_json()) == placement


@pytest.mark.parametrize(
    "placement",
    [Flat([(0, 3)], (3,)), Rows(0, "rows", 4), Partial(), Only(1), Replicate()],
    ids=str,
)
def test_what_gives_none_is_read_as_whole(placement):
    assert from_json(placement.to_json()) == Replicate()
    assert kind_of(placement.to_json()) is type(placement)


def test_rows_by_an_index(tmp_path):
    mesh, whole = Mesh({"dp": 2, "ep": 3}), torch.arange(14.0).reshape(7, 2)
    rows = [[6, 0, -1], [], [3, 1, 2, 4, 5]]
    index = Shard(0, sizes=[len(held) for held in rows])
    for rank in range(mesh.size):
        held = torch.tensor(rows[rank % 3], dtype=torch.long)
        options = {"out": tmp_path / "run", "mesh": mesh, "rank": rank, "kinds": ["scalar"]}
        with tt.trace(nn.Linear(1, 1), **options) as tracer, tracer.step(0), tracer.microbatch(3):
            tracer.index("dispatch.rows", held, {"ep": index})
            # What a row of padding holds does not count.
            part = whole[held.clamp(min=0)] + 100.0 * (held < 0)[:, None]
            tracer.scalar("dispatch", part, {"ep": Rows(0, "dispatch.rows", size=7)})
    trace = Trace(tmp_path / "run")
    entry = trace.entry("scalar", "dispatch", microbatch=3)
    assert entry["placements"] == {"ep": {"rows": {"dim": 0, "index": "dispatch.rows"}}}
    assert trace.entry("index", "dispatch.rows", microbatch=3)["shape"] == [8]
    for reading in (trace, merged(trace)):
        np.testing.assert_array_equal(reading.value("scalar", "dispatch", microbatch=3), whole)


BAD_WORDS = [
    (lambda: Partial("norm"), "norm"),
    (lambda: Segments(0, []), "at least one segment"),
    (lambda: Segments(0, [4, 2], repeat=0), r"Segments\(0, \[4, 2\]\), repeat 0"),
    (lambda: Segments(0, [4, 2], sizes=[[2, 2]]), "1 lists of sizes"),
    (lambda: Segments(0, [4, 2], sizes=[[2, 2], [1, 2]]), r"\[1, 2\] add up to 3, but .* has 2"),
    (lambda: Strided(0, 0), r"Strided\(0, 0\)"),
    (lambda: Boxes([]), "no box"),
    (lambda: Boxes([((0, 0), (2, 2)), ((0,), (1,))]), "box 1, .* none of 2 dimensions"),
    (lambda: Boxes([((0,), (2,)), ((1,), (2,))]), "boxes 0 and 1 overlap"),
    (lambda: Boxes([((0,), (2,)), ((3,), (1,))]), r"hold 3 of the 4 elements of \[4\]"),
    (lambda: Flat([(0, 3), (4, 6)], (6,)), r"\[4, 6\) follows the ranges up to 3"),
    (lambda: Flat([(3, 0)], (6,)), "stops before its start"),
    (lambda: Flat([(0, 5)], (2, 3)), r"end at 5, but .* \[2, 3\] has 6"),
    (lambda: Rows(0, "a/b", 3), "a/b"),
    (lambda: Mesh({"tp": 2}, [0, 0]), "2 ranks, 1 different ones, for 2"),
]


@pytest.mark.parametrize("make, message", BAD_WORDS, ids=lambda value: "")
def test_words_that_contradict_themselves(make, message):
    with pytest.raises(tt.TraceError, match=message):
        make()


BAD_PLACEMENTS = [
    ({"tp": Segments(0, [3, 4])}, r"holds \[6, 4\], but \[7, 4\] cut as .*'segments': \[3, 4\]"),
    (
        {"dp": Shard(0, size=12), "tp": Segments(0, [3, 4])},
        r"axis tp: the segments \[3, 4\] add up to 7, but there are 6",
    ),
    ({"tp": Segments(0, [6], sizes=[[6]])}, "1 parts of a segment for axis tp, which has 2"),
    ({"tp": Boxes([((0, 0), (6, 4))])}, "1 boxes for axis tp, which has 2"),
    ({"tp": Boxes([((0,), (6,)), ((6,), (0,))])}, "boxes of 1 dimensions on axis tp"),
    ({"tp": Flat([(0, 24)], (6, 4))}, "1 flat ranges for axis tp, which has 2"),
    (
        {"dp": Flat([(0, 12), (12, 24)], (6, 4)), "tp": Flat([(0, 12), (12, 24)], (6, 4))},
        "flat on the axes dp, tp",
    ),
    (
        {"tp": Shard(0, size=10), "dp": Flat([(0, 12), (12, 24)], (6, 4))},
        r"axis dp: the flat ranges are those of shape \[6, 4\], but .* leave \[5, 4\]",
    ),
    (
        {"tp": Rows(0, "rows", 9), "dp": Shard(0, size=9)},
        "rows of dimension 0 over tp stand in an index, so Shard.* on axis dp",
    ),
    ({"tp": Zigzag(2)}, "dimension 2 over tp, but the tensor has 2"),
    (
        {"tp": Strided(0, 2, size=9)},
        r"holds \[6, 4\], but \[9, 4\] .* leaves \[5, 4\]",
    ),
    ({"tp": Shard(0, size=9), "dp": Shard(0, size=8)}, "axis tp .* dimension 0 is 9 .* says 8"),
    (
        {"dp": Shard(0, size=11), "tp": Shard(0, sizes=[3, 2])},
        r"axis tp: the sizes \[3, 2\] add up to 5, but there are 6",
    ),
    (tt.OnMesh("expert", {"ep": Shard(0)}), 'no mesh "expert"'),
]


@pytest.mark.parametrize("placements, message", BAD_PLACEMENTS, ids=lambda value: "")
def test_placements_that_do_not_fit(tmp_path, placements, message):
    mesh = Mesh({"dp": 2, "tp": 2})
    tracer = tt.trace(nn.Linear(1, 1), out=tmp_path, mesh=mesh, rank=0)
    with tracer.step(0), complains(tracer, message):
        tracer.scalar("tensor", torch.ones(6, 4), placements)
