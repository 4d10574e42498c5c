"""Layouts proposed from a reference: by shapes, by values where shapes tell nothing, in doubt."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import ttrace_torch as tt

MESH = {"dp": 2, "tp": 2}
WHOLE = torch.arange(64.0).reshape(8, 8)


class Holds(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.weight = nn.Parameter(value.clone())

    def forward(self, x):
        return x


def recorded(folder, whole, shard_of, mesh=None, **options):
    """A reference of `whole` and a run whose rank at a coordinate holds `shard_of(coordinate)`."""
    mesh = tt.Mesh(mesh or MESH)
    for out, values, grid in (
        (folder / "ref.h5", {0: whole}, tt.Mesh()),
        (folder / "run", {r: shard_of(mesh.coordinate(r)) for r in mesh.ranks}, mesh),
    ):
        for rank, value in values.items():
            model = nn.Sequential(Holds(value))
            with tt.trace(
                model, out=out, mesh=grid, rank=rank, kinds="param", **options
            ) as tracer, tracer.step(0):  # fmt: skip
                model(torch.ones(1))
    return tt.suggest_layouts(folder / "ref.h5", folder / "run")


def chunk(dim, axis):
    return lambda where: WHOLE.chunk(2, dim)[where[axis]]


def line(placements, note=""):
    return [f'tt.Layout("0", params={{"weight": {placements}}}),{note}']


def zigzag(where):
    parts = WHOLE.chunk(4)
    return torch.cat([parts[where["tp"]], parts[3 - where["tp"]]])


def fused(where):
    return torch.cat([part.chunk(2)[where["tp"]] for part in WHOLE.chunk(2)])


@pytest.mark.parametrize(
    "shard_of, placements",
    [
        (chunk(0, "tp"), '{"tp": tt.Shard(0)}'),
        (chunk(1, "tp"), '{"tp": tt.Shard(1)}'),
        # The axis has to be told by values: both have two ranks.
        (chunk(0, "dp"), '{"dp": tt.Shard(0)}'),
        (zigzag, '{"tp": tt.Zigzag(0)}'),
        (fused, '{"tp": tt.Segments(0, [4, 4])}'),
        (
            lambda where: WHOLE.chunk(2, 1)[where["tp"]].chunk(2)[where["dp"]],
            '{"dp": tt.Shard(0), "tp": tt.Shard(1)}',
        ),
    ],
)
def test_values_tell_what_shapes_do_not(tmp_path, shard_of, placements):
    assert recorded(tmp_path, WHOLE, shard_of) == line(placements)


def test_what_is_whole_needs_no_layout(tmp_path):
    assert recorded(tmp_path, WHOLE, lambda where: WHOLE) == []


def test_uneven_shards_say_the_whole(tmp_path):
    found = recorded(
        tmp_path, WHOLE[:7], lambda where: WHOLE[:7].chunk(2)[where["tp"]], {"tp": 2}
    )  # fmt: skip
    assert found == line('{"tp": tt.Shard(0, size=7)}')


def test_what_cannot_be_told_apart_is_said(tmp_path):
    zeros = torch.zeros(8, 6)
    found = recorded(tmp_path, zeros, lambda where: zeros[:4])
    assert len(found) == 1 and '  # params weight: or {"dp": tt.Shard(0)}' in found[0]
    assert found[0].endswith("they fit alike")


def test_values_of_no_cut_are_said(tmp_path):
    found = recorded(tmp_path, WHOLE, lambda where: -WHOLE[:4])
    assert len(found) == 1 and "by its shape alone, no cut has the reference's values" in found[0]


def test_no_cut_has_the_shape(tmp_path):
    found = recorded(tmp_path, WHOLE, lambda where: WHOLE[:3])
    assert found == line("{}", "  # params weight: no cut gives these shapes")


def test_a_bug_in_the_values_spoils_no_layout_that_has_their_shape(tmp_path):
    right = tt.Layout("0", params={"weight": {"tp": tt.Shard(0)}})
    assert recorded(tmp_path, WHOLE, lambda where: -chunk(0, "tp")(where), layouts=[right]) == []


class Scaled(nn.Module):
    """A rank's gradient of the output is a term of the whole one's."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return x * self.weight


def test_gradients_of_outputs_are_proposed_where_they_lie_otherwise(tmp_path):
    x = torch.arange(1.0, 9.0).reshape(2, 4)
    # Whole outputs, of whose gradient each rank has the term of its column.
    for out, ranks, grid in (
        (tmp_path / "ref.h5", [None], tt.Mesh()),
        (tmp_path / "run", [0, 1], tt.Mesh({"tp": 2})),
    ):
        for rank in ranks:
            model = nn.Sequential(Scaled())
            with tt.trace(model, out=out, mesh=grid, rank=rank or 0) as tracer, tracer.step(0):
                result = model(x)
                own = result if rank is None else result[:, 2 * rank : 2 * rank + 2]
                own.square().sum().backward()
    assert [
        line
        for line in tt.suggest_layouts(tmp_path / "ref.h5", tmp_path / "run")
        if "grad_output" in line and line.startswith('tt.Layout("0"')
    ] == [
        'tt.Layout("0", grad_output={"tp": tt.Partial("sum")}, '
        'param_grads={"weight": {"tp": tt.Partial("sum")}}),'
    ]
