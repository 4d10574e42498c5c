"""Over which axes of a hand-made mesh samples are dealt out, and what the numbers follow from."""

from __future__ import annotations

import json
import re

import h5py
import pytest
import torch
from complaints import complains
from small_models import WIDTH
from torch import nn

import ttrace_torch as tt
from ttrace_torch.layout.data_axes import data_ranks


def place(axes, rank, given=None, layouts=()):
    return data_ranks(tt.Mesh(axes), rank, given, layouts)


@pytest.mark.parametrize(
    "axes, given, line",
    [
        ({}, None, [0]),
        ({"dp": 2, "tp": 2}, None, [0, 2]),
        ({"tp": 2, "dp": 3}, None, [0, 1, 2]),
        ({"pp": 2, "cp": 2, "tp": 2}, None, [0]),
        ({"dp": 2, "ep": 2, "tp": 2}, None, [0, 2, 4, 6]),
        ({"dp_replicate": 2, "dp_shard": 2}, None, [0, 1, 2, 3]),
        ({"dp": 2, "ep": 2}, "dp", [0, 2]),
        ({"dp": 2, "tp": 2}, (), [0]),
        ({"data": 2, "model": 2}, "data", [0, 2]),
        ({"ep": 2, "dp": 2}, ("dp", "ep"), [0, 2, 1, 3]),
        ({"tp": 2}, "data", [0]),
    ],
)
def test_the_axes_over_which_samples_are_dealt_out(axes, given, line):
    for number, rank in enumerate(line):
        found = place(axes, rank, given)
        assert found.ranks == tuple(line) and found.place == (number, len(line))
        assert found.doubt is None


def test_an_axis_that_cuts_activations_holds_parts_of_one_micro_batch():
    cut = tt.Layout("*", output={"dp": tt.Shard(0)})
    assert place({"dp": 2, "tp": 2}, 2, None, [cut]).place == (0, 1)
    other = tt.Layout("*", output={"tp": tt.Shard(0)}, params={"*": {"dp": tt.Shard(0)}})
    assert place({"dp": 2, "tp": 2}, 2, None, [other]).place == (1, 2)


@pytest.mark.parametrize(
    "axes, doubt",
    [
        ({"data": 2, "tp": 2}, 'axis data is not known.*say trace.dp_axis="data". if each'),
        ({"ep": 2, "dp": 2}, "axis ep is not known"),
        ({"a": 2, "b": 2}, r"axes a, b is not known.*dp_axis=\('a', 'b'\)"),
    ],
)
def test_what_nobody_knows_is_asked_at_trace(tmp_path, capsys, axes, doubt):
    found = place(axes, 0)
    assert found.place is None
    model = nn.Linear(2, 2)
    tt.trace(model, out=tmp_path / "run", mesh=tt.Mesh(axes), rank=0)
    said = capsys.readouterr().err
    assert re.search(doubt, said), said
    tt.trace(model, out=tmp_path / "told", mesh=tt.Mesh(axes), rank=0, dp_axis=())
    assert "is not known" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "given, words",
    [
        ("tp", 'ranks of "tp" see the same samples'),
        (("dp", "cp"), 'ranks of "cp" see the same samples'),
        ("data", "the mesh has the axes dp, tp"),
        (("dp", "dp"), "names an axis twice"),
    ],
)
def test_axes_that_cannot_be_meant(tmp_path, given, words):
    with pytest.raises(tt.TraceError, match=words):
        tt.trace(
            nn.Linear(2, 2),
            out=tmp_path / "run",
            mesh=tt.Mesh({"dp": 2, "tp": 2}),
            rank=0,
            dp_axis=given,
        )


def numbers(folder, rank, work, **arguments):
    """Micro-batches of the model's input that `rank` of dp 2 · tp 2 records."""
    model = nn.Linear(WIDTH, WIDTH)
    mesh = tt.Mesh({"dp": 2, "tp": 2})
    tracer = tt.trace(model, out=folder / f"{rank}", mesh=mesh, rank=rank, **arguments)
    with tracer.step(0):
        work(tracer, model)
    tracer.close()
    assert tracer.incomplete == []
    with h5py.File(folder / f"{rank}" / f"rank_{rank:05d}.h5") as file:
        tensors = json.loads(file["manifest"][()])["tensors"]
    return {entry["microbatch"] for entry in tensors if entry["kind"] == "input"}


def twice(tracer, model):
    for _ in range(2):
        model(torch.ones(1, WIDTH)).sum().backward()


def twice_told(tracer, model):
    for number in range(2):
        with tracer.microbatch(number, of=2):
            model(torch.ones(1, WIDTH)).sum().backward()


@pytest.mark.parametrize(
    "work, arguments, found",
    [
        (twice, {}, {2, 3}),
        (twice, {"interleaved": True}, {1, 3}),
        (twice_told, {}, {2, 3}),
        (twice, {"dp_axis": ()}, {0, 1}),
        (twice_told, {"dp_axis": ()}, {0, 1}),
    ],
)
def test_a_hand_made_mesh_numbers_micro_batches(tmp_path, work, arguments, found):
    # Rank 2 is dp 1, tp 0: the data-parallel rank is not the rank.
    assert numbers(tmp_path, 2, work, **arguments) == found
    assert numbers(tmp_path, 1, work, **{**arguments, "dp_axis": ()}) == {0, 1}


def test_of_without_known_axes_says_the_way_out(tmp_path):
    tracer = tt.trace(nn.Linear(2, 2), out=tmp_path / "run", mesh=tt.Mesh({"data": 2}), rank=0)
    with tracer.step(0), complains(tracer, r"of=2. needs trace.dp_axis=\.\.\.., the mesh axes"):
        with tracer.microbatch(0, of=2):
            pass
