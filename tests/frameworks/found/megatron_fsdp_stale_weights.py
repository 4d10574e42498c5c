"""megatron-fsdp 0.6.1: with `overlap_param_gather=False` ZeRO 1 and 2 train with stale weights.

Each rank updates its own shard of the parameters. The whole weights are gathered again only where
the gathering overlaps (`finish_grad_sync`), and `fully_shard()` calls nothing else that does it, so
that after a step rank r computes with

    its own rows of W - lr * G, and the other rows of W,

for ever, and the ranks with models of their own. ZeRO 3 gathers for every forward and is right.
Fails once it is mended.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import megatron_fsdp_on_cpu
import torch
from common.two_ranks import RANKS, run_on_two
from megatron_fsdp_reduced_again import batch, check, gradient, whole
from torch.distributed.device_mesh import init_device_mesh

LR, ROWS = 0.1, 6


def weights_used(rank, zero):
    """The weights that a forward after one step computes with, and the rows of this rank."""
    import megatron_fsdp

    model = whole()
    model, optimizer = megatron_fsdp.fully_shard(
        model,
        torch.optim.SGD(model.parameters(), lr=LR),
        device_mesh=init_device_mesh("cpu", (RANKS, 1), mesh_dim_names=("dp", "tp")),
        dp_shard_dim="dp",
        tp_dim="tp",
        fsdp_unit_modules=[torch.nn.Linear],
        zero_dp_strategy=zero,
        overlap_param_gather=False,
    )
    model(batch(0, rank)).square().sum().backward()
    own = next(model.parameters())._local_tensor.numel() // 4
    optimizer.step()
    optimizer.zero_grad()
    # The rows of the identity come back as the columns of the weights.
    return model(torch.eye(4)).detach().T, slice(0, own) if rank == 0 else slice(ROWS - own, ROWS)


def run(rank, folder):
    before = next(whole().parameters()).detach()
    right = before - LR * sum(gradient(0, of) for of in range(RANKS)) / RANKS
    for zero in (1, 2):
        found, rows = weights_used(rank, zero)
        formula = before.clone()
        formula[rows] = right[rows]
        check(rank, f"ZeRO {zero}, weights after a step", found, formula, right)
    found, _ = weights_used(rank, 3)
    assert torch.allclose(found, right, rtol=1e-5, atol=1e-6), "another bug"


if __name__ == "__main__":
    megatron_fsdp_on_cpu.install()
    run_on_two(run)
