"""Parameters that `fully_shard` has cut: PyTorch's own shards of every rank give the whole back."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from fake_ranks import playing
from merging import merged
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from trace_reading import Trace

import ttrace_torch as tt

WORLD = 8
ROWS = range(1, 14)


class Weights(nn.Module):
    """One matrix of each number of rows, cut along `tp_dim` by tensor parallelism or not at all."""

    def __init__(self, tp_mesh=None, tp_dim=0):
        super().__init__()
        for rows in ROWS:
            whole = torch.arange(rows * 5.0).reshape(rows, 5)
            if tp_mesh is not None:
                cut = [Replicate() if tp_dim is None else Shard(tp_dim)]
                whole = distribute_tensor(whole, tp_mesh, cut, src_data_rank=None)
            self.register_parameter(f"weight{rows}", nn.Parameter(whole))


def write_trace(folder, axes, fsdp_axes, tp_dim, trace_axes=None):
    """The trace of `Weights` under FSDP, on a device mesh with `axes`, played by every rank."""
    for rank in range(WORLD):
        with playing(rank, WORLD):
            root = init_device_mesh("cpu", tuple(axes.values()), mesh_dim_names=tuple(axes))
            model = Weights(root["tp"] if "tp" in axes else None, tp_dim)
            fully_shard(model, mesh=root[fsdp_axes])
            mesh = tt.Mesh(trace_axes or axes)
            with tt.trace(model, out=folder, mesh=mesh, rank=rank) as tracer, tracer.step(0):
                for parameter in model.parameters():
                    parameter.grad = 2 * parameter.detach()
                tracer.main_grads()
    return Trace(folder)


def check(trace):
    trace.check_complete()
    for reading in (trace, merged(trace)):
        for rows in ROWS:
            whole = np.arange(rows * 5.0).reshape(rows, 5)
            for kind, factor in (("param", 1), ("main_grad", 2)):
                value = reading.value(kind, f"weight{rows}")
                np.testing.assert_array_equal(value, factor * whole, err_msg=f"{rows} rows")


@pytest.fixture(scope="module")
def over_tp(tmp_path_factory):
    """`over_tp(dp, tp, tp_dim)`: the trace of FSDP over tensor parallelism, written once."""

    @cache
    def written(dp, tp, tp_dim):
        folder = tmp_path_factory.mktemp("over_tp")
        return write_trace(folder / "run", {"dp": dp, "tp": tp}, "dp", tp_dim)

    return written


@pytest.mark.parametrize("tp_dim", [0, 1, None], ids=["rows", "columns", "replicated"])
@pytest.mark.parametrize("dp, tp", [(4, 2), (2, 4)], ids=str)
def test_fsdp_over_tensor_parallelism(over_tp, dp, tp, tp_dim):
    trace = over_tp(dp, tp, tp_dim)
    check(trace)
    placements = trace.entry("param", "weight8")["placements"]
    first = {"shard": 0, "stride": tp} if tp_dim == 0 else {"shard": 0}
    assert placements["dp"] == first
    assert placements.get("tp") == (None if tp_dim is None else {"shard": tp_dim})


def test_where_the_strided_cut_is_not_what_fsdp_made_of_it(over_tp):
    trace = over_tp(4, 2, 0)
    # 9 rows over tp are 5 and 4, over dp then 2 + 2 + 1 + 0 and 1 + 1 + 1 + 1. Read from left to
    # right, the last coordinate of dp would have its one row at tp 0.
    entry = trace.entry("param", "weight9")
    assert entry["mesh"].startswith("tp=2,dp=4@")
    assert trace.manifest["meshes"][entry["mesh"]]["ranks"] == [0, 2, 4, 6, 1, 3, 5, 7]
    assert entry["placements"] == {"tp": {"shard": 0}, "dp": {"shard": 0}}
    assert trace.local(entry, 6) is None
    assert trace.local(entry, 7).shape == (1, 5)
    assert "mesh" not in trace.entry("param", "weight8")


@pytest.mark.parametrize("tp_dim", [0, 1], ids=["rows", "columns"])
def test_hybrid_sharding_over_tensor_parallelism(tmp_path, tp_dim):
    axes = {"replicate": 2, "shard": 2, "tp": 2}
    trace = write_trace(tmp_path / "run", axes, ("replicate", "shard"), tp_dim)
    check(trace)
    assert "replicate" not in trace.entry("param", "weight8")["placements"]


def test_hybrid_sharding_alone(tmp_path):
    trace = write_trace(
        tmp_path / "run", {"replicate": 2, "shard": 4}, ("replicate", "shard"), None
    )
    check(trace)
    assert trace.entry("param", "weight5")["placements"] == {"shard": {"shard": 0}}


def test_axes_that_the_trace_calls_otherwise(tmp_path):
    axes, trace_axes = {"replicate": 2, "shard": 2, "tp": 2}, {"pp": 2, "dp": 2, "model": 2}
    trace = write_trace(tmp_path / "run", axes, ("replicate", "shard"), 0, trace_axes)
    check(trace)
    assert trace.entry("param", "weight8")["mesh"] == "replicate=2,shard=2,tp=2"
