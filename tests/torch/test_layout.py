"""Layouts: what a shard says of the whole, what is refused, and what a pattern reaches."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from complaints import complains
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import WIDTH, TiedGPT, seeded
from torch import nn
from trace_reading import Trace

import ttrace_torch as tt
from ttrace_torch import Layout, Mesh, Only, Partial, Replicate, Shard
from ttrace_torch.layout.shapes import check_local_shape, normalised, whole_shape

# Placements that are given, not found by a rule, do not look at the tensor.
ANY = torch.empty(0)


class Local(nn.Module):
    """A module whose output is whatever shard it is told to hold."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.part = nn.Identity()

    def forward(self, *shards):
        return self.part(shards[0] if len(shards) == 1 else shards)


def record(folder, mesh, output, shards, **layout):
    """Runs every rank of the mesh after the other, rank r holding `shards[r]`."""
    layouts = [Layout("part", output=output, **{"input": output, **layout})]
    options = {"out": folder, "mesh": mesh, "layouts": layouts, "modules": ["part"]}
    for rank, shard in enumerate(shards):
        with tt.trace(Local(), rank=rank, **options) as tracer, tracer.step(0):
            tracer._job.names.model(*(shard if isinstance(shard, tuple) else (shard,)))
    return Trace(folder)


def test_mesh_is_row_major():
    mesh = Mesh({"dp": 2, "tp": 3})
    assert mesh.size == 6
    assert mesh.coordinate(0) == {"dp": 0, "tp": 0}
    assert mesh.coordinate(1) == {"dp": 0, "tp": 1}
    assert mesh.coordinate(5) == {"dp": 1, "tp": 2}
    assert [mesh.coordinate(rank) for rank in range(6)] == mesh.coordinates()
    assert Mesh({}).coordinate(0) == {}
    for rank in (-1, 6):
        with pytest.raises(tt.TraceError, match=f"rank {rank}"):
            mesh.coordinate(rank)
    for axes in ({"tp": 0}, {"": 2}, [("tp", 2), ("tp", 2)]):
        with pytest.raises(tt.TraceError, match="mesh"):
            Mesh(axes)


def test_even_shards_negative_dimensions_and_two_axes_on_one_dimension(tmp_path):
    whole = torch.arange(2 * 12.0).reshape(2, 12)
    mesh = Mesh({"cp": 2, "tp": 3})
    shards = [part for half in whole.chunk(2, -1) for part in half.chunk(3, -1)]
    trace = record(tmp_path, mesh, {"cp": Shard(-1), "tp": Shard(1)}, shards)
    entry = trace.entry("output", "part", microbatch=0)
    assert entry["shape"] == [2, 12]
    assert entry["placements"] == {"cp": {"shard": 1}, "tp": {"shard": 1}}
    np.testing.assert_array_equal(trace.value("output", "part", microbatch=0), whole)


def incomplete(trace):
    return trace.manifest["run"].get("incomplete", [])


def test_uneven_shards(tmp_path):
    whole = torch.arange(7.0)
    shards = list(whole.chunk(3))
    assert [len(shard) for shard in shards] == [3, 3, 1]
    mesh = Mesh({"tp": 3})
    trace = record(tmp_path / "size", mesh, {"tp": Shard(0, size=7)}, shards)
    assert trace.entry("output", "part", microbatch=0)["placements"] == {"tp": {"shard": 0}}
    np.testing.assert_array_equal(trace.value("output", "part", microbatch=0), whole)

    shards = list(whole.split([1, 4, 2]))
    trace = record(tmp_path / "sizes", mesh, {"tp": Shard(0, sizes=[1, 4, 2])}, shards)
    placement = trace.entry("output", "part", microbatch=0)["placements"]["tp"]
    assert placement == {"shard": 0, "sizes": [1, 4, 2]}
    np.testing.assert_array_equal(trace.value("output", "part", microbatch=0), whole)

    shards = [torch.ones(3), torch.ones(2), torch.ones(1)]
    misfit = record(tmp_path / "x", mesh, {"tp": Shard(0, size=7)}, shards)
    [lacking] = [e for e in incomplete(misfit) if e["tensors"] == "*/*/output/part/*/*"]
    assert lacking["ranks"] == [1] and "this rank holds [2], but [7]" in lacking["reason"]
    # All together know what each rank does not.
    trace = record(tmp_path / "own", mesh, {"tp": Shard(0)}, whole.chunk(3))
    np.testing.assert_array_equal(trace.value("output", "part", microbatch=0), whole)
    # Ranks that contradict each other leave out the tensor, not the manifest.
    apart = record(tmp_path / "y", mesh, {}, whole.chunk(3))
    assert ("output", "part", 0, 0, 0) not in apart.entries
    assert any("Shard(dim, size=...)" in e["reason"] for e in incomplete(apart))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(1, 13), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2), st.booleans()), max_size=3),
)
def test_shapes_agree_with_torch_chunk(shape, cuts):
    """Cutting by torch.chunk in mesh order, then telling the whole from each part."""
    cuts = [(size, dim % len(shape), even) for size, dim, even in cuts]
    for size, dim, even in cuts:
        if even:
            shape[dim] *= size
    mesh = Mesh({f"axis{i}": size for i, (size, _, _) in enumerate(cuts)})
    placements = {
        f"axis{i}": Shard(dim, size=None if all(e for _, d, e in cuts if d == dim) else shape[dim])
        for i, (_, dim, _) in enumerate(cuts)
    }
    parts = [torch.empty(shape)]
    for size, dim, _ in cuts:
        parts = [chunk for part in parts for chunk in chunks(part, size, dim)]
    placed = normalised(placements, len(shape), mesh, "t")
    for rank, part in enumerate(parts):
        whole = whole_shape(part.shape, placed, mesh, "t")
        assert whole == shape
        check_local_shape(whole, part.shape, placed, mesh, mesh.coordinate(rank), "t")


def chunks(tensor, parts, dim):
    """torch.chunk, made up with empty parts to the number asked for."""
    found = list(tensor.chunk(parts, dim))
    return found + [tensor.narrow(dim, 0, 0)] * (parts - len(found))


def test_partial_only_and_lists_of_placements(tmp_path):
    mesh = Mesh({"tp": 2})
    shards = [
        (torch.full((2,), 1.0), torch.tensor([1.0, 2.0]), torch.tensor([5.0])),
        (torch.full((2,), 2.0), torch.tensor([3.0, 4.0]), torch.tensor([6.0])),
    ]
    output = [{"tp": Partial("sum")}, {"tp": Shard(0)}, {"tp": Only(1)}]
    trace = record(tmp_path, mesh, output, shards, input=[{"tp": Partial("mean")}, None, {}])
    np.testing.assert_array_equal(trace.value("output", "part", microbatch=0), [3, 3])
    np.testing.assert_array_equal(trace.value("output", "part[1]", microbatch=0), [1, 2, 3, 4])
    np.testing.assert_array_equal(trace.value("output", "part[2]", microbatch=0), [6])
    np.testing.assert_array_equal(trace.value("input", "part[input][0]", microbatch=0), [1.5, 1.5])
    only = trace.entry("output", "part[2]", microbatch=0)
    assert only["placements"] == {"tp": {"only": 1}} and "held_at" not in only


def test_gradient_placements_follow_those_of_outputs_and_parameters(tmp_path):
    mesh = Mesh({"dp": 2, "tp": 2})
    model = seeded(TiedGPT)
    layouts = [
        Layout("layers.*", output={"tp": Partial(), "dp": Shard(0)}),
        Layout("layers.*.attn", params={"w*": {"tp": Shard(0)}, "bias": {"tp": Shard(-1)}}),
        Layout("layers.1.attn", output={"tp": Shard(2)}, param_grads={"bias": {"tp": Partial()}}),
        Layout("layers.1.attn", grad_output={"tp": Partial("sum")}),
        Layout("layers.0.norm1", main_grads={"bias": {"dp": Shard(0)}}),
    ]
    tracer = tt.trace(model, out=tmp_path / "run", mesh=mesh, rank=0, layouts=layouts)
    modules, parameters = tracer._job.assignment.modules, tracer._job.assignment.parameters
    assert modules["layers.0.mlp"].of_output(0, ANY) == {"tp": Partial(), "dp": Shard(0)}
    assert modules["layers.0.mlp"].of_grad_output(0, ANY) == {"tp": Replicate(), "dp": Shard(0)}
    assert modules["layers.1.attn"].of_output(1, ANY) == {"tp": Shard(2)}
    assert modules["layers.1.attn"].of_grad_output(0, ANY) == {"tp": Partial("sum")}
    assert modules["norm"].of_output(0, ANY) == {}
    weight, bias = parameters["layers.1.attn.weight"], parameters["layers.1.attn.bias"]
    assert weight.of("param") == weight.of("param_grad") == {"tp": Shard(0)}
    assert bias.of("param_after_step") == bias.of("main_grad") == {"tp": Shard(-1)}
    assert bias.of("param_grad") == {"tp": Partial()}
    assert parameters["layers.0.norm1.bias"].of("main_grad") == {"dp": Shard(0)}
    assert parameters["layers.0.norm1.bias"].of("param_grad") == {}


def test_a_tied_parameter_may_be_laid_out_under_any_of_its_names(tmp_path):
    layouts = [Layout("head", params={"weight": {"tp": Shard(0, size=13)}})]
    tracer = tt.trace(TiedGPT(), out=tmp_path, mesh=Mesh({"tp": 2}), rank=0, layouts=layouts)
    assert "tp" in tracer._job.assignment.parameters["embedding.weight"].param


@pytest.mark.parametrize(
    "layout, message",
    [
        (Layout("layers.*.atn"), r'"layers.\*.atn".* matches no module; nearest: .*layers.0.attn'),
        (
            Layout("layers.*.norm1", params={"wieght": {"tp": Shard(0)}}),
            '"wieght" matches no parameter.* nearest: weight',
        ),
        (Layout("norm", output={"tp": 0}), "0 on axis tp is none of Replicate"),
    ],
)
def test_layouts_are_checked_when_the_trace_begins(tmp_path, layout, message):
    with pytest.raises(tt.TraceError, match=message):
        tt.trace(TiedGPT(), out=tmp_path, mesh=Mesh({"tp": 2}), rank=0, layouts=[layout])


def test_axes_that_the_mesh_lacks_are_ignored(tmp_path):
    layouts = [
        Layout("norm", output={"pp": Shard(0)}, params={"weight": {"dp": Shard(0)}}),
        Layout("head", output=[None, {"pp": Shard(0), "tp": Shard(1)}]),
    ]
    tracer = tt.trace(TiedGPT(), out=tmp_path, mesh=Mesh({"tp": 2}), rank=0, layouts=layouts)
    assignment = tracer._job.assignment
    assert assignment.modules["norm"].of_output(0, ANY) == {}
    assert assignment.parameters["norm.weight"].of("param") == {}
    assert assignment.modules["head"].of_output(1, ANY) == {"tp": Shard(1)}
    with tracer.step(0):
        tracer.scalar("tokens", torch.ones(2), {"cp": Shard(0)})
    assert tracer.incomplete == []


@pytest.mark.parametrize(
    "placement, message",
    [
        (Shard(1), "part.*cut along dimension 1 over tp, but the tensor has 1"),
        (Shard(0, sizes=[1]), "1 sizes for axis tp, which has 2"),
        (Shard(0, sizes=[1, 3]), r"this rank holds \[2\], but \[4\]"),
        (Only(2), r"Only\(2\) on axis tp, which has 2"),
    ],
)
def test_placements_that_do_not_fit_the_tensor(tmp_path, placement, message):
    trace = record(tmp_path, Mesh({"tp": 2}), {"tp": placement}, [torch.ones(2), torch.ones(2)])
    reasons = [e["tensors"] + ": " + e["reason"] for e in incomplete(trace)]
    assert any(re.search(message, reason) for reason in reasons), reasons


def test_placements_that_are_nonsense():
    with pytest.raises(tt.TraceError, match="norm"):
        Partial("norm")
    with pytest.raises(tt.TraceError, match="give one of the two"):
        Shard(0, sizes=[1, 2], size=4)


def test_rank_and_form_are_checked(tmp_path, monkeypatch):
    model = nn.Linear(2, 2)
    with pytest.raises(tt.TraceError, match="one rank"):
        tt.trace(model, out=tmp_path / "run.h5", mesh=Mesh({"tp": 2}), rank=0)
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(tt.TraceError, match="rank 1 is outside the mesh"):
        tt.trace(model, out=tmp_path / "run")
    tracer = tt.trace(model, out=tmp_path / "run", mesh=Mesh({"tp": 2}))
    assert tracer._output.rank == 1
    for options, message in (
        ({"kinds": ["outputs"]}, "'outputs' is none of"),
        ({"modules": ["linaer"]}, "'linaer' matches no module"),
        ({"run": {"modell": "x"}}, "'modell'"),
        ({"compress": 10}, "0 to 9"),
    ):
        with pytest.raises(tt.TraceError, match=message):
            tt.trace(model, out=tmp_path / "other", mesh=Mesh({"tp": 2}), **options)


def test_names_the_format_has_no_room_for(tmp_path):
    model = nn.Module()
    model.add_module("a/b", nn.Linear(1, 1))
    with pytest.raises(tt.TraceError, match="a/b"):
        tt.trace(model, out=tmp_path)


def test_selection_by_kind_and_module(tmp_path):
    model = seeded(TiedGPT)
    kinds = ("output", "param", "grad_output", "param_grad")
    with (
        tt.trace(
            model, out=tmp_path / "run.h5", kinds=kinds, modules=["layers.*.norm1", "norm"]
        ) as tracer,
        tracer.step(0),
    ):
        tracer.loss(model(torch.zeros(1, 2, dtype=torch.long)).sum()).backward()
    trace = Trace(tmp_path / "run.h5")
    modules = ["layers.0.norm1", "layers.1.norm1", "norm"]
    assert trace.names("output") == modules
    assert trace.names("grad_output") == modules[::-1]
    parameters = [f"{name}.{local}" for name in modules for local in ("weight", "bias")]
    assert trace.names("param") == parameters
    assert set(trace.names("param_grad")) == set(parameters)
    assert {entry["kind"] for entry in trace.entries.values()} == set(kinds)
    # Edges go past what is not recorded.
    assert trace.modules["norm"]["inputs"] == ["layers.0.norm1", "layers.1.norm1"]


def test_a_model_changed_after_trace_is_not_recorded(tmp_path):
    model = seeded(TiedGPT)
    tracer = tt.trace(model, out=tmp_path / "run.h5")
    model.norm.weight = nn.Parameter(torch.ones(WIDTH))
    with complains(tracer, "norm.weight is not what it was"), tracer.step(0):
        pass
    model = seeded(TiedGPT)
    tracer = tt.trace(model, out=tmp_path / "run.h5")
    model.norm = nn.Identity()
    with complains(tracer, "norm is not what it was"), tracer.step(0):
        pass


def test_steps_and_microbatches_are_numbered_from_0_and_not_nested(tmp_path):
    tracer = tt.trace(nn.Linear(2, 2), out=tmp_path / "run.h5")
    with tracer.step(0):
        with complains(tracer, "begins inside"), tracer.step(1):
            pass
        with complains(tracer, "micro-batch -1"), tracer.microbatch(-1):
            pass
        tracer.main_grads()
        with complains(tracer, "the first gradients are kept"):
            tracer.main_grads()
    for number in (0, -1):
        with complains(tracer, f"step {number} has been traced already"), tracer.step(number):
            pass
    with tracer.step(1), complains(tracer, "closes when the step ends"):
        tracer.close()
    steps = Trace(tmp_path / "run.h5").manifest["run"]["recorded"]["steps"]
    assert steps == [0, 1]


class Attends(nn.Module):
    """Takes a sharded tensor, another of the same tokens, and what every rank has whole."""

    def forward(self, x, ids, mask, scale, *, table):
        return x * scale


class Calls(nn.Module):
    def __init__(self):
        super().__init__()
        self.attends = Attends()

    def forward(self, x):
        return self.attends(
            x, torch.zeros(4, 3, dtype=torch.long), torch.ones(8, 8), torch.ones(()), table=x[0]
        )


def test_one_dictionary_holds_for_the_tensors_with_that_extent(tmp_path, capsys):
    layouts = [Layout("*", input={"tp": Shard(0)}, output={"tp": Shard(0)})]
    for rank in range(2):
        options = {"out": tmp_path, "mesh": Mesh({"tp": 2}), "layouts": layouts}
        with tt.trace(Calls(), rank=rank, **options) as tracer:
            for step in range(2):
                with tracer.step(step):
                    tracer._job.names.model(torch.ones(4, 3, 2))
        assert tracer.incomplete == []
    shapes = {name: entry["shape"] for (_, name, *_), entry in Trace(tmp_path).entries.items()}
    assert shapes == {
        "(model)": [8, 3, 2],
        "attends": [8, 3, 2],
        "attends[ids]": [8, 3],
        "attends[mask]": [8, 8],
        "attends[scale]": [],
        "attends[table]": [3, 2],
    }
    said = capsys.readouterr().err
    for text in ("input 2 has 8 elements along dimension 0, and not 4", "input 3 has no elements"):
        assert said.count(text) == 2, said  # once on each rank
    assert "so it is taken for whole; a list says each: input=[{...}, None, ...]" in said
