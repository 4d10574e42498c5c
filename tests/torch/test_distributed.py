"""Real process groups: tensor parallelism by DTensor and by hand, data parallelism."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
import torch
from complaints import complains
from parallel_model import ParallelModel, compare, reference
from process_groups import run_ranks
from small_models import WIDTH, TiedGPT, batch, cross_entropy, seeded, train_step
from torch import distributed, nn
from trace_reading import Trace

import ttrace_torch as tt
from ttrace_torch import Layout, Mesh, Partial, Shard

RANKS = 2


def dtensor_rank(rank, folder, sequence_parallel):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate as DReplicate
    from torch.distributed.tensor import Shard as DShard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        SequenceParallel,
        parallelize_module,
    )

    device_mesh = init_device_mesh("cpu", (RANKS,), mesh_dim_names=("tp",))
    model = seeded(ParallelModel)
    residual = DShard(1) if sequence_parallel else DReplicate()
    plan = {
        "embedding": RowwiseParallel(input_layouts=DReplicate(), output_layouts=residual),
        "up": ColwiseParallel(input_layouts=residual),
        "down": RowwiseParallel(output_layouts=residual),
        "head": ColwiseParallel(input_layouts=residual, output_layouts=DReplicate()),
    }
    if sequence_parallel:
        plan["norm"] = SequenceParallel(use_local_output=True)
    model = parallelize_module(model, device_mesh, plan)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=False)
    with tt.trace(model, optimizer, out=folder, mesh=Mesh({"tp": RANKS})) as tracer:
        with tracer.step(0):
            ids, targets = batch(length=6)
            tracer.loss(cross_entropy(model(ids), targets)).backward()
            optimizer.step()


@pytest.mark.parametrize("sequence_parallel", [False, True], ids=["tp", "tp+sp"])
def test_dtensor_tensor_parallelism_tells_its_own_layout(tmp_path, sequence_parallel):
    expected = reference(tmp_path / "reference.h5")
    run_ranks(RANKS, dtensor_rank, tmp_path / "run", sequence_parallel)
    candidate = Trace(tmp_path / "run")
    assert compare(candidate, expected) == len(expected.entries)

    def placements(kind, name, **where):
        return candidate.entry(kind, name, **where).get("placements")

    assert placements("param", "embedding.weight") == {"tp": {"shard": 0}}
    assert placements("param", "down.weight") == {"tp": {"shard": 1}}
    assert placements("param_after_step", "up.bias") == {"tp": {"shard": 0}}
    assert placements("main_grad", "up.weight") == {"tp": {"shard": 0}}
    assert placements("output", "embedding", microbatch=0) == {"tp": {"partial": "sum"}}
    assert placements("output", "up", microbatch=0) == {"tp": {"shard": 2}}
    assert placements("output", "down", microbatch=0) == {"tp": {"partial": "sum"}}
    assert placements("output", "(model)", microbatch=0) is None
    raw_norm = placements("param_grad", "norm.weight", microbatch=0)
    assert raw_norm == ({"tp": {"partial": "sum"}} if sequence_parallel else None)
    for name, entry in expected.modules.items():
        assert candidate.modules[name].get("inputs") == entry.get("inputs"), name


class HandParallelModel(ParallelModel):
    """The same, cut by hand: uneven columns, and a partial output that is summed outside."""

    def __init__(self, rank=None):
        super().__init__(hidden=13)
        self.rank = rank
        if rank is not None:
            cut = [7, 6]
            self.up.weight = nn.Parameter(self.up.weight.split(cut, 0)[rank].clone())
            self.up.bias = nn.Parameter(self.up.bias.split(cut, 0)[rank].clone())
            self.down.weight = nn.Parameter(self.down.weight.split(cut, 1)[rank].clone())
            if rank == 1:
                with torch.no_grad():
                    self.down.bias.zero_()

    def forward(self, ids):
        x = self.embedding(ids)
        y = Copy.apply(self.norm(x))
        y = self.down(nn.functional.gelu(self.up(y)))
        return self.head(x + Reduce.apply(y))


class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.clone()
        if distributed.is_initialized():
            distributed.all_reduce(gradient)
        return gradient


class Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        if distributed.is_initialized():
            distributed.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


HAND_LAYOUTS = [
    Layout("up", output={"tp": Shard(-1, size=13)}, params={"*": {"tp": Shard(0, size=13)}}),
    Layout("down", input={"tp": Shard(-1, size=13)}, output={"tp": Partial("sum")}),
    Layout("down", params={"weight": {"tp": Shard(1, sizes=[7, 6])}}),
]


def hand_rank(rank, folder):
    model = seeded(lambda: HandParallelModel(rank))
    options = {"out": folder, "mesh": Mesh({"tp": RANKS}), "layouts": HAND_LAYOUTS}
    with tt.trace(model, **options) as tracer, tracer.step(0):
        ids, targets = batch(length=6)
        tracer.loss(cross_entropy(model(ids), targets)).backward()
        tracer.main_grads()


def test_tensor_parallelism_by_hand_with_uneven_shards(tmp_path):
    expected = reference(tmp_path / "reference.h5", make=HandParallelModel)
    run_ranks(RANKS, hand_rank, tmp_path / "run")
    candidate = Trace(tmp_path / "run")
    kinds = {"input", "output", "loss", "grad_output", "param_grad", "main_grad"}
    assert compare(candidate, expected, kinds) > 30
    assert candidate.entry("param", "up.weight")["shape"] == [13, WIDTH]
    for name, entry in expected.modules.items():
        assert candidate.modules[name].get("inputs") == entry.get("inputs"), name


def data_rank(rank, folder):
    inner = seeded(TiedGPT)
    model = nn.parallel.DistributedDataParallel(inner)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tt.trace(model, optimizer, out=folder, mesh=Mesh({"dp": RANKS})) as tracer:
        with tracer.step(0), tracer.microbatch(rank):
            ids, targets = batch(seed=rank)
            tracer.loss(cross_entropy(model(ids), targets)).backward()
            optimizer.step()


def test_data_parallelism_with_global_microbatches(tmp_path):
    model = seeded(TiedGPT)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tt.trace(model, optimizer, out=tmp_path / "reference.h5") as tracer:
        train_step(model, tracer, optimizer, microbatches=RANKS)
    expected = Trace(tmp_path / "reference.h5")
    run_ranks(RANKS, data_rank, tmp_path / "run")
    candidate = Trace(tmp_path / "run")
    # The reference divides each micro-batch's loss, DistributedDataParallel the sum of gradients.
    whole_step = {"param", "main_grad", "param_after_step", "input", "output", "loss"}
    assert compare(candidate, expected, whole_step) > 80
    for number in range(RANKS):
        for kind, name in (("output", "layers.0.attn"), ("param_grad", "norm.weight")):
            entry = candidate.entry(kind, name, microbatch=number)
            assert entry["held_at"] == {"dp": [number]}
        raw = candidate.value("param_grad", "norm.weight", microbatch=number)
        scaled = expected.value("param_grad", "norm.weight", microbatch=number)
        np.testing.assert_allclose(raw, RANKS * scaled, rtol=2e-5, atol=1e-8)
        entry = candidate.entry("param_grad", "norm.weight", microbatch=number)
        assert entry["scale"] == 1 / RANKS
    assert "held_at" not in candidate.entry("main_grad", "norm.weight")
    assert candidate.modules["layers.0.norm2"] == expected.modules["layers.0.norm2"]


def elsewhere_rank(rank, folder):
    tracer = tt.trace(nn.Linear(1, 1), out=folder / f"node{rank}" / "run", mesh=Mesh({"dp": RANKS}))
    with tracer.step(0):
        tracer.scalar("rate", 0.5)
    tracer.close()


def test_nodes_whose_folders_lie_elsewhere_have_one_run(tmp_path):
    run_ranks(RANKS, elsewhere_rank, tmp_path)
    ids = set()
    for rank in range(RANKS):
        with h5py.File(tmp_path / f"node{rank}" / "run" / f"rank_{rank:05d}.h5") as file:
            ids.add(file.attrs["ttrace_run"])
    assert len(ids) == 1, ids


def refusals_rank(rank, folder):
    from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
    from torch.distributed.tensor import DTensor, distribute_tensor
    from torch.distributed.tensor import Partial as DPartial
    from torch.distributed.tensor import Shard as DShard

    named = init_device_mesh("cpu", (RANKS,), mesh_dim_names=("tp",))
    other = init_device_mesh("cpu", (RANKS,), mesh_dim_names=("model",))
    turned = DeviceMesh("cpu", [1, 0], mesh_dim_names=("tp",))
    anonymous = init_device_mesh("cpu", (RANKS,))
    whole = torch.arange(10.0).reshape(5, 2)
    tracer = tt.trace(nn.Linear(1, 1), out=folder, mesh=Mesh({"dp": 1, "tp": RANKS}))
    with tracer.step(0):
        tracer.scalar("cut", distribute_tensor(whole, named, [DShard(0)]))
        odd = DTensor.from_local(torch.ones(2, 2), named, [DPartial("product")], run_check=False)
        with complains(tracer, "full_tensor"):
            tracer.scalar("odd", odd)
        norm = torch.linalg.vector_norm(distribute_tensor(whole, named, [DShard(0)]))
        with complains(tracer, "full_tensor"):
            tracer.grad_norm(norm)
        tracer.grad_norm(norm.full_tensor())
        tracer.scalar("other", distribute_tensor(whole, other, [DShard(0)]))
        with complains(tracer, "rank 1 at {'tp': 0}, but .* {'dp': 0, 'tp': 1}"):
            tracer.scalar("turned", distribute_tensor(whole, turned, [DShard(0)]))
        with complains(tracer, "mesh_dim_names"):
            tracer.scalar("anonymous", distribute_tensor(whole, anonymous, [DShard(0)]))
    tracer.close()


def test_dtensors_with_uneven_cuts_and_those_that_are_refused(tmp_path):
    run_ranks(RANKS, refusals_rank, tmp_path / "run")
    trace = Trace(tmp_path / "run")
    assert trace.entry("scalar", "cut")["shape"] == [5, 2]
    expected = np.arange(10.0).reshape(5, 2)
    for name in ("cut", "other"):
        np.testing.assert_array_equal(trace.value("scalar", name), expected)
    # An axis of the device mesh that the trace does not have: a mesh of its own.
    assert trace.entry("scalar", "other")["mesh"] == "model=2"
    assert trace.manifest["meshes"]["model=2"] == {"axes": [{"name": "model", "size": 2}]}
    assert trace.names("scalar") == ["cut", "other"]
    assert trace.value("grad_norm", "grad_norm") == np.float32(np.linalg.norm(expected))
