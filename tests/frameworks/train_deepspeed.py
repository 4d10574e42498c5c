"""A small GPT trained by DeepSpeed, as a user would: the lines of the tracer end in `# tt`."""

from __future__ import annotations

import deepspeed
import torch
from deepspeed_gpt import (
    ADAMW,
    CLIP,
    GLOBAL_MICRO_BATCHES,
    MICRO_BATCH_SIZE,
    STEPS,
    SmallGpt,
    get_batch,
    parameter_groups,
)

import ttrace_torch as tt  # tt


def settings(case, share):
    return {
        "train_micro_batch_size_per_gpu": MICRO_BATCH_SIZE,
        "gradient_accumulation_steps": share,
        "gradient_clipping": CLIP,
        "zero_optimization": {
            "stage": case["stage"],
            "stage3_param_persistence_threshold": 0,
            **case.get("zero", {}),
        },
        "zero_allow_untested_optimizer": True,
        **case.get("settings", {}),
    }


def initialized(model, groups, config):
    optimizer = torch.optim.AdamW(groups, **ADAMW)
    return deepspeed.initialize(model=model, optimizer=optimizer, config=config)[0]


def main(case, out):
    world, rank = torch.distributed.get_world_size(), torch.distributed.get_rank()
    share = GLOBAL_MICRO_BATCHES // world
    model = SmallGpt(case.get("tied", True))
    engine = initialized(model, parameter_groups(model), settings(case, share))
    engine.enable_backward_allreduce = case.get("reduce", True)
    noise = tt.Perturb(case["noise"]) if "noise" in case else None  # tt
    tracer = tt.trace(engine, out=out, perturb=noise)  # tt
    for step in range(STEPS):
        with tracer.step(step):  # tt
            for number in range(share * rank, share * (rank + 1)):
                loss = tracer.loss(engine(*get_batch(step, number)))  # tt
                engine.backward(loss / case.get("divisor", 1))
                engine.step()
    tracer.close()  # tt
    engine.destroy()
