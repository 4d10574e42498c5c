"""torch 2.13.0: clip_grad_norm_(..., norm_type=inf) of an FSDP2 model with fewer rows than ranks.

The norm is max over ranks of max|g_r|, and that of a rank without rows is 0. Such a rank raises
instead, before it communicates, while the others wait for it in the reduction. Fails once it is
mended.
"""

from __future__ import annotations

import signal

import torch
from common.two_ranks import run_on_two
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

# Seconds: once it is mended, rank 1 waits for rank 0 in turn.
PATIENCE = 120


def clipped(rank, folder):
    """One row over two ranks: rank 1 has none."""
    signal.alarm(PATIENCE)
    model = nn.Linear(4, 1, bias=False)
    fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
    model(torch.ones(2, 4)).sum().backward()
    if rank == 0:
        # Clipping here too would wait for rank 1 for ever.
        print("rank 0 has", model.weight.grad.to_local())
        return
    for foreach in (True, False):
        norm = None
        try:
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0, float("inf"), foreach=foreach)
        except RuntimeError as error:
            print(f"rank 1, foreach={foreach}: {str(error).splitlines()[0]}")
        assert norm is None, "the rank without rows takes part: mended"


if __name__ == "__main__":
    run_on_two(clipped)
