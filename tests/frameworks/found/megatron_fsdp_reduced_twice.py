"""megatron-fsdp 0.6.1: with `overlap_grad_reduce=False` ZeRO 0 and 1 reduce every gradient twice.

The hooks of the backward reduce what is ready, whether or not that is to overlap, and then
`finish_grad_sync` reduces the whole buffer, as there was no overlap. No micro-batches need be
accumulated. The sum over R ranks (`calculate_per_token_loss=True`) of ZeRO 0 becomes

    R * G      instead of      G = sum_r g_r,

and the mean of ZeRO 1, which reduces only the shard of its own rank, for R = 2 on rank r

    g_r / 4 + 3/4 g_q      instead of      (g_r + g_q) / 2.

Fails once it is mended.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import megatron_fsdp_on_cpu
import torch
from common.two_ranks import RANKS, run_on_two
from megatron_fsdp_reduced_again import accumulated, check, gradient

NOT_OVERLAPPED = {"overlap_grad_reduce": False, "fsdp_unit_modules": [torch.nn.Linear]}


def run(rank, folder):
    raw = [gradient(0, of) for of in range(RANKS)]
    whole = sum(raw)
    summed = {"zero_dp_strategy": 0, "calculate_per_token_loss": True}
    found, _ = accumulated(rank, 1, **summed, **NOT_OVERLAPPED)
    check(rank, "ZeRO 0, sum", found, RANKS * whole, whole)
    found, rows = accumulated(rank, 1, zero_dp_strategy=1, **NOT_OVERLAPPED)
    formula = raw[rank] / 4 + 3 / 4 * raw[1 - rank]
    check(rank, "ZeRO 1, mean", found, formula[rows], whole[rows] / 2)


if __name__ == "__main__":
    megatron_fsdp_on_cpu.install()
    run_on_two(run)
