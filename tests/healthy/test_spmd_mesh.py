"""FSDP2 on a mesh with all axes, `fully_shard(dp_mesh_dims=...)`: torchtitan with full DTensors.

The activations are DTensors on that mesh, too, so that a micro-batch is that of all ranks.
"""

import pytest
import torch
from answers import audited, compared
from process_groups import run_ranks
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import DataParallelMeshDims, fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import ttrace_torch as tt

WIDTH, ROWS, MICROBATCHES = 8, 4, 2
# Mesh, the data's axes, and the factor by which FSDP2 divides.
MESHES = {
    "tp": ({"dp": 2, "tp": 2}, DataParallelMeshDims(shard="dp"), 2),
    "hybrid": (
        {"dp_replicate": 2, "dp_shard": 2},
        DataParallelMeshDims(shard="dp_shard", replicate="dp_replicate"),
        4,
    ),
    "two axes": (
        {"dp_shard": 2, "cp": 2, "tp": 1},
        DataParallelMeshDims(shard=("dp_shard", "cp")),
        4,
    ),
}
CUT = {"up.weight": 0, "up.bias": 0, "down.weight": 1}


class Scale(nn.Module):
    """Works on local tensors: the gradient says that it is replicated, and is a term of a sum."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        if not isinstance(x, DTensor):
            return x * self.weight
        local = x.to_local() * self.weight.to_local()
        return DTensor.from_local(local, x.device_mesh, x.placements)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.scale = Scale()
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x):
        x = self.scale(x)
        return self.norm(x + self.down(torch.tanh(self.up(x))))


def data_of(number):
    generator = torch.Generator().manual_seed(number)
    return torch.randn(2, ROWS, WIDTH, generator=generator)


def train(tracer, model, optimizer, batch, factor):
    with tracer.step(0):
        for number in range(MICROBATCHES):
            x, y = batch(number)
            loss = tracer.loss((model(x) - y).square().mean(), labels=y)
            (loss * factor / MICROBATCHES).backward()
        optimizer.step()
    tracer.close()


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


def reference(folder):
    model = Net()
    optimizer = sgd(model)
    batches = [data_of(number) for number in range(MICROBATCHES)]
    tracer = tt.trace(
        model,
        optimizer,
        out=folder / "reference.h5",
        specification=folder / "specification.json",
    )
    train(tracer, model, optimizer, batches.__getitem__, 1)


def spmd_rank(rank, folder, case, fault):
    axes, dims, divisor = MESHES[case]
    mesh = init_device_mesh("cpu", tuple(axes.values()), mesh_dim_names=tuple(axes))
    model = Net()
    for name, parameter in list(model.named_parameters()):
        owner, _, local = name.rpartition(".")
        cut = Shard(CUT[name]) if name in CUT else Replicate()
        placements = [cut if axis == "tp" else Replicate() for axis in axes]
        whole = distribute_tensor(parameter.detach(), mesh, placements)
        model.get_submodule(owner).register_parameter(local, nn.Parameter(whole))
    for part in (model.up, model.down, model):
        fully_shard(part, mesh=mesh, dp_mesh_dims=dims)
    optimizer = sgd(model)

    def batch(number):
        placements = [Replicate() if axis == "tp" else Shard(0) for axis in axes]
        x, y = data_of(number)
        if fault == "swapped" and number == 1:
            y = y[[1, 0, 2, 3]]
        return distribute_tensor(x, mesh, placements), distribute_tensor(y, mesh, placements)

    tracer = tt.trace(model, optimizer, out=folder / "run")
    # FSDP2 divides the sum of the gradients, of which there is but one: the job makes up for it.
    train(tracer, model, optimizer, batch, 1 if fault == "divided" else divisor)


def run_case(folder, case, fault=None):
    reference(folder)
    run_ranks(4, spmd_rank, folder, case, fault)


@pytest.mark.parametrize("case", MESHES)
def test_healthy_run_matches(tmp_path, case):
    run_case(tmp_path, case)
    answer = compared(tmp_path, "run")
    assert answer.code == 0, answer
    answer = audited(tmp_path, "run")
    assert answer.code == 0 and answer.judged == answer.tensors, answer


@pytest.mark.parametrize(
    ("fault", "first"), [("swapped", "scalar labels"), ("divided", "grad_output loss")]
)
def test_fault_is_found(tmp_path, fault, first):
    run_case(tmp_path, "tp", fault)
    answer = compared(tmp_path, "run")
    assert answer.code == 1
    assert answer.found[0] == first, answer
