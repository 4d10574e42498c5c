"""megatron-fsdp 0.6.1: `fully_shard()` steps the optimizer before training.

To make the optimizer's state for checkpoints it calls `optimizer.step()` with gradients of zero, on
the parameters themselves. AdamW therefore decays them,

    p  <-  p * (1 - lr * weight_decay),

and counts an update, so that the first one of the training has the corrections of the second:

    (1 - b1) / (1 - b1^2) * sqrt((1 - b2^2) / (1 - b2))     of what it should be

without weight decay, 0.744 for b1, b2 = 0.9, 0.999. Fails once it is mended.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import megatron_fsdp_on_cpu
import torch
from common.two_ranks import run_on_two
from torch.distributed.device_mesh import init_device_mesh

LR, B1, B2 = 0.01, 0.9, 0.999


def whole(weight_decay):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8, bias=False))
    settings = {"lr": LR, "betas": (B1, B2), "weight_decay": weight_decay, "eps": 1e-12}
    return model, torch.optim.AdamW(model.parameters(), **settings)


def values(model):
    parameter = next(model.parameters())
    return getattr(parameter, "_local_tensor", parameter).detach().clone()


def sharded(weight_decay):
    import megatron_fsdp

    model, optimizer = whole(weight_decay)
    before = values(model)
    model, optimizer = megatron_fsdp.fully_shard(
        model,
        optimizer,
        device_mesh=init_device_mesh("cpu", (2, 1), mesh_dim_names=("dp", "tp")),
        dp_shard_dim="dp",
        tp_dim="tp",
        zero_dp_strategy=0,
    )
    return model, optimizer, before


def run(rank, folder):
    model, _, before = sharded(weight_decay=0.1)
    decayed = (values(model) / before).median().item()
    model, optimizer, before = sharded(weight_decay=0.0)
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
    moved = (values(model) - before).abs().median().item() / LR
    expected = (1 - B1) / (1 - B1**2) * ((1 - B2**2) / (1 - B2)) ** 0.5
    if rank == 0:
        print(f"parameters after fully_shard: {decayed:.6f} of before, {1 - LR * 0.1:.6f} expected")
        print(f"first update: {moved:.4f} lr, {expected:.4f} by the formula, 1 without the step")
    assert abs(decayed - 1) > 5e-4, "parameters stay: mended"
    assert abs(decayed - (1 - LR * 0.1)) < 1e-6, "the formula does not explain it"
    assert abs(moved - expected) < 1e-3, "the formula does not explain the update"


if __name__ == "__main__":
    megatron_fsdp_on_cpu.install()
    run_on_two(run)
