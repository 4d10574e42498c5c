"""A small job of one process or of several that average their gradients: `train.py STEPS
MICROBATCHES [bug]`; with the bug they never do."""

from __future__ import annotations

from support.ttrace_cli import REPOSITORY

SCRIPT = """
import contextlib
import os
import sys
import time

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

import ttrace_torch as tt

RANKS, RANK = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
STEPS, OWN = int(sys.argv[1]), int(sys.argv[2]) // RANKS
torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(13, 8), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 13))
if RANKS > 1:
    distributed.init_process_group("gloo")
    model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
tracer = tt.trace(model, optimizer)
for step in range(STEPS):
    with tracer.step(step):
        for own in range(OWN):
            generator = torch.Generator().manual_seed(100 * step + OWN * RANK + own)
            ids = torch.randint(13, (2, 5), generator=generator)
            averages = own == OWN - 1 and "bug" not in sys.argv
            with contextlib.nullcontext() if RANKS == 1 or averages else model.no_sync():
                loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
                (tracer.loss(loss, labels=ids) / OWN).backward()
        optimizer.step()
        optimizer.zero_grad()
    print("step", step, loss.item())
    time.sleep(0.05)
tracer.close()
"""
FORKED_TORCHRUN = (str(REPOSITORY / "tests" / "support" / "forked_torchrun.py"),)
