"""torch 2.13.0: a compiled block under tensor parallelism that follows a parallel embedding.

The embedding's output is an AsyncCollectiveTensor. A block of parallel layers that AOTAutograd
compiled (backends aot_eager and inductor) loses the gradient that it should return: under FSDP2
dL/dE is 0, alone it is None, or raises where a residual stream passes the block. With `x * 1` in
between, which waits for the tensor, all is right. Fails once it is mended.
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
    def __init__(self, residual):
        super().__init__()
        self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 4)
        self.residual = residual

    def forward(self, x):
        y = self.down(self.up(x))
        return x + y if self.residual else y


class Model(nn.Module):
    def __init__(self, residual, waits):
        super().__init__()
        self.embedding, self.block = nn.Embedding(8, 4), Block(residual)
        self.waits = waits

    def forward(self, ids):
        x = self.embedding(ids)
        return self.block(x * 1.0 if self.waits else x)


def gradient(mesh, compiled, residual=False, waits=False):
    """The embedding's gradient, or None."""
    torch.manual_seed(0)
    model = Model(residual, waits)
    parallelize_module(model, mesh["tp"], PLAN)
    if compiled:
        model.block.compile(backend="aot_eager")
    # As torchtitan does; alone, the case of the residual stream raises in the backward.
    fully_shard(model.block, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    model(torch.arange(8)).square().sum().backward()
    found = model.embedding.weight.grad
    return None if found is None else found.full_tensor()


def lost(rank, folder):
    mesh = init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))
    for residual in (False, True):
        right = gradient(mesh, False, residual)
        found = gradient(mesh, True, residual)
        norm = None if found is None else found.norm().item()
        if rank == 0:
            name = "a residual stream" if residual else "no residual stream"
            print(f"{name}: the norm of dL/dE is {norm} instead of {right.norm():.4g}")
        assert not norm, "the gradient arrives: mended"
        assert torch.equal(gradient(mesh, True, residual, waits=True), right)


if __name__ == "__main__":
    run_on_two(lost)
