"""megatron-fsdp 0.6.1: ZeRO 0 and 1 with accumulation reduce again what they have reduced, with
`sync_model_each_microbatch=True`, the default.

Every backward reduces the whole buffer in place. Of n micro-batches on R ranks with gradients g_kr,
the sum over the ranks (`calculate_per_token_loss=True`) of ZeRO 0 becomes

    sum_k R^(n-1-k) G_k      instead of      sum_k G_k,       G_k = sum_r g_kr,

and the mean of ZeRO 1, which reduces only the shard of its own rank, for n = R = 2 on rank r

    g_0r / 4 + 3/4 g_0q + G_1 / 2      instead of      (G_0 + G_1) / 2.

A warning in the log speaks of zero_grad() in every cycle of forward and backward, which would leave
no accumulation. Fails once it is mended.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import megatron_fsdp_on_cpu
import torch
from common.two_ranks import RANKS, run_on_two
from torch.distributed.device_mesh import init_device_mesh


def batch(number, rank):
    return torch.randn(3, 4, generator=torch.Generator().manual_seed(10 * number + rank))


def whole():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 6, bias=False))


def gradient(number, rank):
    """The gradient of one micro-batch on one rank."""
    model = whole()
    model(batch(number, rank)).square().sum().backward()
    return model[0].weight.grad


def accumulated(rank, count, **settings):
    """What the optimizer of a rank gets, and the rows that it holds."""
    import megatron_fsdp

    model = whole()
    model, _ = megatron_fsdp.fully_shard(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        device_mesh=init_device_mesh("cpu", (RANKS, 1), mesh_dim_names=("dp", "tp")),
        dp_shard_dim="dp",
        tp_dim="tp",
        **settings,
    )
    for number in range(count):
        model(batch(number, rank)).square().sum().backward()
    local = next(model.parameters()).grad._local_tensor
    first = 0 if rank == 0 else 6 - len(local)
    return local, slice(first, first + len(local))


def check(rank, what, found, formula, right):
    error = ((found - right).norm() / right.norm()).item()
    left = ((found - formula).norm() / right.norm()).item()
    print(f"rank {rank}, {what}: error {error:.3g}, of the formula {left:.1e}")
    assert error > 1e-2, "the gradient is right: mended"
    assert left < 1e-5, "the formula does not explain it"


def run(rank, folder):
    raw = [[gradient(number, of) for of in range(RANKS)] for number in range(3)]
    sums = [sum(of) for of in raw]
    found, _ = accumulated(rank, 3, zero_dp_strategy=0, calculate_per_token_loss=True)
    formula = sum(RANKS ** (2 - k) * one for k, one in enumerate(sums))
    check(rank, "ZeRO 0, sum", found, formula, sum(sums))
    found, rows = accumulated(rank, 2, zero_dp_strategy=1, fsdp_unit_modules=[torch.nn.Linear])
    formula = raw[0][rank] / 4 + 3 / 4 * raw[0][1 - rank] + sums[1] / 2
    check(rank, "ZeRO 1, mean", found, formula[rows], ((sums[0] + sums[1]) / 2)[rows])


if __name__ == "__main__":
    megatron_fsdp_on_cpu.install()
    run_on_two(run)
