"""Parameters that carry Megatron's attributes tell their own layout; nothing of Megatron runs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from merging import merged
from torch import nn
from trace_reading import Trace

import ttrace_torch as tt
from ttrace_torch import Layout, Mesh, OnMesh, Partial, Shard

TP = 2
WHOLE = {
    "column.weight": torch.arange(8 * 3.0).reshape(8, 3),
    "gated.weight": torch.arange(12 * 3.0).reshape(12, 3),
    "row.weight": torch.arange(3 * 8.0).reshape(3, 8),
    "norm.weight": torch.arange(3.0),
    "adapter.weight": torch.arange(4.0),
    "router.weight": torch.arange(4 * 3.0).reshape(4, 3),
}
ATTRIBUTES = {
    "column.weight": {"tensor_model_parallel": True, "partition_dim": 0, "partition_stride": 1},
    "gated.weight": {"tensor_model_parallel": True, "partition_dim": 0, "partition_stride": 2},
    "row.weight": {"tensor_model_parallel": True, "partition_dim": 1, "partition_stride": 1},
    "norm.weight": {"sequence_parallel": True},
    "adapter.weight": {"average_gradients_across_tp_domain": True},
    # The defaults that Megatron sets on what is not cut.
    "router.weight": {"tensor_model_parallel": False, "partition_dim": -1, "partition_stride": 1},
}

# Raw gradients 1 and 2 of the two ranks, summed and averaged.
RAW = {"norm.weight": 3, "adapter.weight": 1.5}


def megatron_part(whole, dim, stride, rank, world):
    """As Megatron initialises an affine weight on the CPU: pieces rank, rank + world, ..."""
    per_partition_per_stride = whole.shape[dim] // world // stride
    weight_list = torch.split(whole, per_partition_per_stride, dim=dim)
    return torch.cat(weight_list[rank::world], dim=dim)


class Holder(nn.Module):
    def __init__(self, weight, attributes):
        super().__init__()
        self.weight = nn.Parameter(weight.clone())
        for name, value in attributes.items():
            setattr(self.weight, name, value)


def rank_model(rank, world=TP):
    model = nn.Module()
    for name, whole in WHOLE.items():
        attributes = ATTRIBUTES[name]
        if attributes.get("tensor_model_parallel"):
            dim, stride = attributes["partition_dim"], attributes["partition_stride"]
            whole = megatron_part(whole, dim, stride, rank, world)
        model.add_module(name.split(".")[0], Holder(whole, attributes))
    return model


def write(folder, mesh, layouts=(), **options):
    for rank, where in enumerate(mesh.coordinates()):
        tp = where.get("tp", where.get("model", 0))
        model = rank_model(tp)
        options = {**options, "out": folder, "mesh": mesh, "rank": rank, "layouts": layouts}
        with tt.trace(model, **options) as tracer, tracer.step(0), tracer.microbatch(0):
            for name, parameter in model.named_parameters():
                # These have seen a share of the sequence, or another gradient.
                share = tp + 1 if name in RAW else 1
                (share * parameter * parameter.detach()).sum().backward()
                parameter.main_grad = 3 * parameter.detach()
            tracer.main_grads()
    return Trace(folder)


@pytest.mark.parametrize("axis", ["tp", "model"])
def test_attributes_say_how_parameters_are_cut(tmp_path, axis):
    trace = write(tmp_path / "run", Mesh({"dp": 2, axis: TP}), tp_axis=axis)
    for reading in (trace, merged(trace)):
        for name, whole in WHOLE.items():
            raw = RAW.get(name, 1) * whole
            np.testing.assert_array_equal(reading.value("param", name), whole)
            np.testing.assert_array_equal(reading.value("param_grad", name, microbatch=0), raw)
            np.testing.assert_array_equal(reading.value("main_grad", name), 3 * whole)

    def placements(kind, name, **where):
        return trace.entry(kind, name, **where).get("placements")

    assert placements("param", "column.weight") == {axis: {"shard": 0}}
    assert placements("param", "gated.weight") == {axis: {"shard": 0, "stride": 2}}
    assert placements("main_grad", "row.weight") == {axis: {"shard": 1}}
    assert placements("param_grad", "norm.weight", microbatch=0) == {axis: {"partial": "sum"}}
    mean = placements("param_grad", "adapter.weight", microbatch=0)
    assert mean == {axis: {"partial": "mean"}}
    for kind in ("param", "main_grad"):
        assert placements(kind, "norm.weight") is None
        assert placements(kind, "router.weight") is None


def test_layouts_override_attributes(tmp_path):
    layouts = [
        Layout("gated", params={"weight": {"tp": tt.Segments(0, [6, 6])}}),
        Layout("norm", param_grads={"weight": {"tp": Partial("mean")}}),
    ]
    trace = write(tmp_path / "run", Mesh({"tp": TP}), layouts)
    for kind, where in (("param", {}), ("param_grad", {"microbatch": 0}), ("main_grad", {})):
        placement = trace.entry(kind, "gated.weight", **where)["placements"]["tp"]
        assert placement == {"shard": 0, "segments": [6, 6]}
    np.testing.assert_array_equal(trace.value("param", "gated.weight"), WHOLE["gated.weight"])
    raw = trace.entry("param_grad", "norm.weight", microbatch=0)["placements"]
    assert raw == {"tp": {"partial": "mean"}}
    assert trace.entry("param", "column.weight")["placements"] == {"tp": {"shard": 0}}


def test_one_tensor_parallel_rank_has_the_attributes_too(tmp_path):
    with tt.trace(rank_model(0, world=1), out=tmp_path / "run.h5") as tracer, tracer.step(0):
        pass
    trace = Trace(tmp_path / "run.h5")
    for name, whole in WHOLE.items():
        assert "placements" not in trace.entry("param", name)
        np.testing.assert_array_equal(trace.value("param", name), whole)


def test_parameters_of_experts_lie_on_the_mesh_of_experts(tmp_path):
    # Two tensor-parallel ranks for attention are two expert-parallel ranks for the experts.
    mesh, experts = Mesh({"dp": 2, "tp": 2}), Mesh({"edp": 1, "ep": 2, "etp": 2})
    whole = torch.arange(4 * 6.0).reshape(4, 6)
    cut = {"tensor_model_parallel": True, "partition_dim": 1, "partition_stride": 1}
    for rank, where in enumerate(experts.coordinates()):
        model = nn.Module()
        for expert in range(2):
            if expert == where["ep"]:
                part = (whole + expert).chunk(2, 1)[where["etp"]]
                model.add_module(f"experts_{expert}", Holder(part, {"allreduce": False, **cut}))
        grouped = (whole - 1).chunk(2, 0)[where["ep"]]
        model.add_module("grouped", Holder(grouped, {"allreduce": False}))
        layouts = [Layout("grouped", params={"*": OnMesh("expert", {"ep": Shard(0)})})]
        options = {"mesh": mesh, "meshes": {"expert": experts}, "layouts": layouts}
        with tt.trace(model, out=tmp_path / "run", rank=rank, **options) as tracer:
            with tracer.step(0):
                pass
    trace = Trace(tmp_path / "run")
    for reading in (trace, merged(trace)):
        for expert in range(2):
            value = reading.value("param", f"experts_{expert}.weight")
            np.testing.assert_array_equal(value, whole + expert)
        np.testing.assert_array_equal(reading.value("param", "grouped.weight"), whole - 1)
    entry = trace.entry("param", "experts_1.weight")
    assert entry["mesh"] == "expert" and entry["held_at"] == {"ep": [1]}
    assert entry["placements"] == {"etp": {"shard": 1}}


@pytest.mark.parametrize(
    "attributes, axes, options, message",
    [
        (
            {"tensor_model_parallel": True, "partition_dim": 2},
            {"tp": 2},
            {},
            r"holder.weight: .* partition_dim is 2 and partition_stride 1, with 2 dimension",
        ),
        (
            {"tensor_model_parallel": True, "partition_dim": 0, "partition_stride": 2},
            {"tp": 2},
            {},
            "partition_stride 2 does not divide the 3 elements .* dimension 0",
        ),
        (
            {"tensor_model_parallel": True, "partition_dim": 0, "sequence_parallel": True},
            {"tp": 2},
            {},
            "tensor_model_parallel says it is cut, sequence_parallel that every tp rank",
        ),
        ({"allreduce": False}, {"ep": 2}, {}, r"ep of size 2; name the experts' mesh"),
        ({}, {"tp": 2}, {"tp_axis": "model"}, "tp_axis='model': the mesh has tp"),
    ],
    ids=["dim", "stride", "both", "expert", "axis"],
)
def test_attributes_that_contradict_themselves(tmp_path, attributes, axes, options, message):
    model = nn.Module()
    model.add_module("holder", Holder(torch.ones(3, 2), attributes))
    with pytest.raises(tt.TraceError, match=message):
        tt.trace(model, out=tmp_path, mesh=Mesh(axes), rank=0, **options)
    if not options:
        # A layout says what the attributes leave open.
        layouts = [Layout("holder", params={"*": {next(iter(axes)): Shard(0)}})]
        tt.trace(model, out=tmp_path, mesh=Mesh(axes), rank=0, layouts=layouts)
