"""torch 2.13.0: a compiled block under tensor parallelism that follows a parallel embedding.

The embedding's output is an AsyncCollectiveTensor. A block of parallel layers that AOTAutograd
compiled (backends aot_eager and inductor) loses the gradient that it should return: under FSDP2
dL/dE is 0; without it the backward raises, or leaves None where no residual stream passes the
block. With `x * 1.0` in between, which waits for the tensor, all is right. Fails once it is mended.
"""

from __future__ import annotations

import torch
from common.two_ranks import run_on_two
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

PLAN = {
    "embedding": RowwiseParallel(input_layouts=Replicate()),
    "block.up": ColwiseParallel(),
    "block.down": RowwiseParallel(),
}


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x):
        return x + self.down(self.up(x))


class Model(nn.Module):
    def __init__(self, waits):
        super().__init__()
        self.embedding, self.block = nn.Embedding(8, 4), Block()
        self.waits = waits

    def forward(self, ids):
        x = self.embedding(ids)
        return self.block(x * 1.0 if self.waits else x)


def gradient(mesh, compiled, waits=False):
    """The embedding's gradient, with the stack of torchtitan."""
    torch.manual_seed(0)
    model = Model(waits)
    parallelize_module(model, mesh["tp"], PLAN)
    if compiled:
        model.block.compile(backend="aot_eager")
    fully_shard(model.block, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    model(torch.arange(8)).square().sum().backward()
    return model.embedding.weight.grad.full_tensor()


def lost(rank, folder):
    mesh = init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))
    right, found = gradient(mesh, False), gradient(mesh, True)
    if rank == 0:
        print(f"the norm of dL/dE is {found.norm():.4g} instead of {right.norm():.4g}")
    assert not found.any(), "the gradient arrives: mended"
    assert torch.equal(gradient(mesh, True, waits=True), right)


if __name__ == "__main__":
    run_on_two(lost)
