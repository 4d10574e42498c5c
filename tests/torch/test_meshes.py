"""Device meshes in the mesh of the trace: axes that it has, slices, flattened and foreign ones."""

from __future__ import annotations

import pytest
import torch
from complaints import complains
from fake_ranks import playing
from merging import merged
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Shard as DShard
from torch.distributed.tensor import distribute_tensor
from trace_reading import Trace

import ttrace_torch as tt
from ttrace_torch import Mesh, OnMesh, Shard

WHOLE = torch.arange(13 * 4.0).reshape(13, 4)


def record(folder, axes, parts, **options):
    """The trace in which `parts(root, rank)` are the scalars (name -> tensor and layout)."""
    mesh = Mesh(axes)
    for rank in range(mesh.size):
        with playing(rank, mesh.size):
            root = init_device_mesh("cpu", tuple(axes.values()), mesh_dim_names=tuple(axes))
            given = {"out": folder, "rank": rank, "kinds": ["scalar"], "mesh": mesh, **options}
            with tt.trace(nn.Linear(1, 1), **given) as tracer, tracer.step(0):
                for name, (tensor, layout) in parts(root, rank).items():
                    tracer.scalar(name, tensor, layout)
    trace = Trace(folder)
    for reading in (trace, merged(trace)):
        for name in trace.names("scalar"):
            torch.testing.assert_close(torch.tensor(reading.value("scalar", name)), WHOLE.double())
    return trace


def cut(whole, mesh, *dims):
    return distribute_tensor(whole, mesh, [DShard(dim) for dim in dims], src_data_rank=None)


def test_axes_of_the_trace_and_axes_of_their_own(tmp_path):
    def parts(root, rank):
        flat = root["dp", "cp"]._flatten("dp_cp")
        return {
            "slice": (cut(WHOLE, root["tp"], 0), {}),
            "two": (cut(WHOLE, root["dp", "tp"], 0, 0), {}),
            "flat": (cut(WHOLE, flat, 0), {}),
        }

    trace = record(tmp_path / "run", {"dp": 2, "cp": 2, "tp": 2}, parts)
    assert "mesh" not in trace.entry("scalar", "slice")
    assert "mesh" not in trace.entry("scalar", "two")
    entry = trace.entry("scalar", "flat")
    # All slices are one mesh, the same for all ranks: what the flat axis leaves out comes first.
    mesh = {"axes": [{"name": "tp", "size": 2}, {"name": "dp_cp", "size": 4}]}
    mesh["ranks"] = [0, 2, 4, 6, 1, 3, 5, 7]
    assert trace.manifest["meshes"][entry["mesh"]] == mesh
    assert entry["placements"] == {"dp_cp": {"shard": 0}}
    assert len(trace.manifest["meshes"]) == 2


def test_a_stage_with_axes_of_its_own(tmp_path):
    def parts(root, rank):
        stage = DeviceMesh("cpu", [4, 5, 6, 7], mesh_dim_names=("fsdp",))
        return {"second": (cut(WHOLE, stage, 0), {})} if rank >= 4 else {}

    trace = record(tmp_path / "in_pp", {"pp": 2, "dp": 4}, parts)
    entry = trace.entry("scalar", "second")
    assert entry["mesh"] == "pp=2,fsdp=4" and entry["held_at"] == {"pp": [1]}
    # Without an axis of stages, its ranks are all there is to say.
    trace = record(tmp_path / "alone", {"world": 8}, parts)
    entry = trace.entry("scalar", "second")
    stage = {"axes": [{"name": "fsdp", "size": 4}], "ranks": [4, 5, 6, 7]}
    assert trace.manifest["meshes"][entry["mesh"]] == stage
    assert "held_at" not in entry


def test_what_a_layout_cuts_is_cut_before(tmp_path):
    """Tensor parallelism by hand, its part shared out: tp first, though dp is the outer axis."""
    cut_by_hand = {"tp": Shard(-2, size=13)}

    def parts(root, rank):
        own = WHOLE.chunk(2)[rank % 2]
        columns = WHOLE.chunk(2, 1)[rank % 2]
        return {
            "rows": (cut(own, root["dp"], 0), cut_by_hand),
            "columns": (cut(columns, root["dp"], 0), {"tp": Shard(1)}),
        }

    trace = record(tmp_path / "run", {"dp": 3, "tp": 2}, parts)
    entry = trace.entry("scalar", "rows")
    mesh = trace.manifest["meshes"][entry["mesh"]]
    assert [axis["name"] for axis in mesh["axes"]] == ["tp", "dp"]
    assert mesh["ranks"] == [0, 2, 4, 1, 3, 5]
    # Where the order makes no difference, the trace's own mesh will do.
    assert "mesh" not in trace.entry("scalar", "columns")


def test_meshes_that_the_user_names(tmp_path):
    experts = Mesh({"edp": 2, "ep": 2}, [0, 2, 1, 3])

    def parts(root, rank):
        where = experts.coordinate(rank)
        mesh = DeviceMesh("cpu", [[0, 2], [1, 3]], mesh_dim_names=("edp", "ep"))
        by_hand = OnMesh("expert", {"ep": Shard(0, size=13)})
        return {
            "dtensor": (cut(WHOLE, mesh["ep"], 0), {}),
            "by_hand": (WHOLE.chunk(2)[where["ep"]], by_hand),
            "both": (cut(WHOLE.chunk(2)[where["ep"]], mesh["edp"], 1), by_hand),
        }

    trace = record(tmp_path / "run", {"tp": 4}, parts, meshes={"expert": experts})
    assert set(trace.manifest["meshes"]) == {"", "expert"}
    for name in ("dtensor", "by_hand", "both"):
        assert trace.entry("scalar", name)["mesh"] == "expert"


def test_ranks_outside_a_named_mesh_record_nothing(tmp_path):
    first = OnMesh("first", {"dp": Shard(0, size=13)})

    def parts(root, rank):
        return {"half": (WHOLE.chunk(2)[rank % 2], first)}

    trace = record(tmp_path / "run", {"all": 4}, parts, meshes={"first": Mesh({"dp": 2})})
    assert trace.entry("scalar", "half")["placements"] == {"dp": {"shard": 0}}


@pytest.mark.parametrize(
    "axes, device, layout, message",
    [
        ({"tp": 4}, ([0, 1, 8], ["x"]), {}, r"ranks \[8\] that are outside the trace's Mesh"),
        ({"dp": 2, "tp": 2}, ([0, 2], ["tp"]), {}, "rank 2 at {'tp': 1}, but .* 'tp': 0}"),
        (
            {"dp": 2, "cp": 3, "tp": 2},
            ([0, 2, 4, 6, 8, 10], ["tp"]),
            {},
            "axis 'tp' is not the axis 'tp' of the trace's",
        ),
        (
            {"dp": 2, "tp": 3},
            ([0, 4], ["x"]),
            {"dp": Shard(0)},
            r"are no whole axes of Mesh.* Shard.* on axis dp",
        ),
    ],
    ids=["rank", "order", "name", "layout"],
)
def test_device_meshes_that_contradict_the_trace(tmp_path, axes, device, layout, message):
    ranks, names = device
    with playing(0, 12):
        tensor = cut(WHOLE, DeviceMesh("cpu", ranks, mesh_dim_names=names), 0)
        tracer = tt.trace(nn.Linear(1, 1), out=tmp_path, mesh=Mesh(axes), rank=0)
        with tracer.step(0), complains(tracer, message):
            tracer.scalar("tensor", tensor, layout)


def test_mesh_with_ranks():
    mesh = Mesh({"a": 2, "b": 2}, [3, 1, 2, 0])
    assert mesh.coordinate(1) == {"a": 0, "b": 1}
    assert mesh.coordinate(0) == {"a": 1, "b": 1}
    assert Mesh.from_json(mesh.to_json()) == mesh
    turned = mesh.reordered(["b", "a"])
    assert turned.ranks == (3, 2, 1, 0)
    assert all(turned.coordinate(rank)[axis] == mesh.coordinate(rank)[axis]
               for rank in range(4) for axis in "ab")  # fmt: skip
    assert mesh.reordered(["a", "b"]) == mesh != turned
    with pytest.raises(tt.TraceError, match="rank 4 is outside"):
        mesh.coordinate(4)
