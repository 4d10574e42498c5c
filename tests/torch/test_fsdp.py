"""FSDP2 in real process groups: steps of training, alone, hybrid, and over tensor parallelism."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from complaints import complains
from merging import merged
from parallel_model import ParallelModel, compare
from process_groups import run_ranks
from small_models import batch, cross_entropy, seeded, train_step
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate as DReplicate
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from trace_reading import Trace

import ttrace_torch as tt

MICROBATCHES = 4


def model_of_13():
    return ParallelModel(hidden=13)


def sharded(axes):
    """The model on a device mesh with `axes`, and the mesh of its data-parallel axes."""
    root = init_device_mesh("cpu", tuple(axes.values()), mesh_dim_names=tuple(axes))
    model = seeded(model_of_13)
    if "tp" in axes:
        plan = {
            "embedding": RowwiseParallel(input_layouts=DReplicate()),
            "up": ColwiseParallel(use_local_output=False),
            "down": RowwiseParallel(),
            "head": ColwiseParallel(output_layouts=DReplicate()),
        }
        parallelize_module(model, root["tp"], plan)
    data = root[tuple(axis for axis in axes if axis != "tp")]
    fully_shard(model.up, mesh=data)
    fully_shard(model, mesh=data)
    return model, data


def fsdp_rank(rank, folder, axes):
    model, data = sharded(axes)
    share = MICROBATCHES // data.size()
    first = share * (rank // axes.get("tp", 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    with tt.trace(model, optimizer, out=folder, mesh=tt.Mesh(axes)) as tracer:
        for step in range(2):
            with tracer.step(step):
                for number in range(first, first + share):
                    with tracer.microbatch(number):
                        ids, targets = batch(seed=100 * step + number)
                        loss = tracer.loss(cross_entropy(model(ids), targets))
                        (loss / share).backward()
                optimizer.step()
                optimizer.zero_grad()


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    path = tmp_path_factory.mktemp("reference") / "reference.h5"
    model = seeded(model_of_13)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tt.trace(model, optimizer, out=path) as tracer:
        for step in range(2):
            train_step(model, tracer, optimizer, step=step, microbatches=MICROBATCHES)
    return Trace(path)


@pytest.mark.parametrize(
    "axes",
    [{"dp": 2}, {"dp_replicate": 2, "dp_shard": 2}, {"dp": 2, "tp": 2}],
    ids=["fsdp", "hsdp", "fsdp+tp"],
)
def test_training_steps(tmp_path, expected, axes):
    run_ranks(int(np.prod(list(axes.values()))), fsdp_rank, tmp_path / "run", axes)
    trace = Trace(tmp_path / "run")
    trace.check_complete()
    whole = merged(trace)
    kinds = {"param", "main_grad", "param_after_step", "input", "output", "loss"}
    assert compare(whole, expected, kinds, rtol=1e-4) > 150
    # As autograd leaves it on each rank: of the micro-batch's own loss. The average is its scale.
    data = int(np.prod([size for axis, size in axes.items() if axis != "tp"]))
    for key, entry in expected.entries.items():
        if key[0] in ("param_grad", "grad_output"):
            raw, scaled = whole.value(*key), expected.value(*key)
            np.testing.assert_allclose(raw, data * scaled, rtol=1e-4, atol=1e-6, err_msg=str(key))
            assert raw.shape == tuple(entry["shape"])
            assert trace.entry(*key)["scale"] == 1 / data
    assert set(trace.modules) == set(expected.modules)
    shard = list(axes)[-1] if "tp" not in axes else "dp"
    after = trace.entry("param_after_step", "up.weight", step=1)["placements"]
    assert after[shard] == ({"shard": 0, "stride": 2} if "tp" in axes else {"shard": 0})
    assert trace.entry("main_grad", "norm.bias")["placements"] == {shard: {"shard": 0}}
    assert "dp" not in trace.entry("param_grad", "up.weight", microbatch=0).get("placements", {})


def unsharded_rank(rank, folder):
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    fully_shard(model, mesh=mesh, reshard_after_forward=False)
    tracer = tt.trace(model, out=folder, mesh=tt.Mesh({"dp": 2}))
    model(torch.ones(1, 4))
    with complains(tracer, r"0.weight is not what it was .* model.reshard\(\)"):
        with tracer.step(0):
            pass
    model.reshard()
    with tracer.step(0):
        pass
    tracer.close()


def test_parameters_left_whole_by_an_evaluation(tmp_path):
    run_ranks(2, unsharded_rank, tmp_path / "run")
    assert Trace(tmp_path / "run").entry("param", "0.weight")["placements"] == {"dp": {"shard": 0}}


def compiled_rank(rank, folder):
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
    block = torch.compile(nn.Linear(4, 4), backend="aot_eager")
    model = nn.Sequential(nn.Linear(4, 4), block)
    fully_shard(model[1], mesh=mesh)
    fully_shard(model, mesh=mesh)
    tracer = tt.trace(model, out=folder, mesh=tt.Mesh({"dp": 2}))
    with tracer.step(0):
        model(torch.ones(1, 4)).sum().backward()
    tracer.close()


def test_gradients_inside_compiled_blocks_are_left_out(tmp_path):
    run_ranks(2, compiled_rank, tmp_path / "run")
    trace = Trace(tmp_path / "run")
    assert set(trace.names("param_grad")) == {"0.weight", "0.bias"}
    incomplete = {entry["tensors"] for entry in trace.manifest["run"]["incomplete"]}
    assert {"*/*/param_grad/1.weight/*/*", "*/*/param_grad/1.bias/*/*"} <= incomplete
