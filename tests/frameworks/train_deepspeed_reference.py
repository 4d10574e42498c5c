"""The small GPT trained by plain PyTorch on one process: what parallel runs are compared with."""

from __future__ import annotations

import torch
from deepspeed_gpt import (
    ADAMW,
    CLIP,
    GLOBAL_MICRO_BATCHES,
    STEPS,
    SmallGpt,
    get_batch,
    parameter_groups,
)

import ttrace_torch as tt


def main(case, out):
    model = SmallGpt(case.get("tied", True))
    optimizer = torch.optim.AdamW(parameter_groups(model), **ADAMW)
    noise = tt.Perturb(case["noise"]) if "noise" in case else None
    tracer = tt.trace(model, optimizer, out=out, perturb=noise)
    for step in range(STEPS):
        optimizer.zero_grad()
        with tracer.step(step):
            for number in range(GLOBAL_MICRO_BATCHES):
                with tracer.microbatch(number):
                    loss = tracer.loss(model(*get_batch(step, number)))
                    (loss / GLOBAL_MICRO_BATCHES).backward()
            tracer.main_grads()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            tracer.grad_norm(norm, clip_norm=CLIP)
            optimizer.step()
    tracer.close()
