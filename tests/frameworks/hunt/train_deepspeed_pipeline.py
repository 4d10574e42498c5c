"""The blocks of the small GPT as a pipeline of DeepSpeed, a stage on every rank."""

from __future__ import annotations

import deepspeed
import torch
from deepspeed.pipe import PipelineModule
from deepspeed_gpt import HIDDEN, MICRO_BATCH_SIZE, SEQUENCE, SmallGpt, parameter_groups
from torch import nn
from train_deepspeed import initialized, settings

import ttrace_torch as tt

STEPS, SHARE = 2, 4


def main(case, out):
    # The vocabulary is left out: `trace` looks at the engine before anything else.
    stages = torch.distributed.get_world_size()
    model = PipelineModule(
        list(SmallGpt().blocks), num_stages=stages, loss_fn=nn.functional.mse_loss
    )
    engine = initialized(model, parameter_groups(model), settings(case, SHARE))
    assert isinstance(engine, deepspeed.runtime.pipe.engine.PipelineEngine)
    try:
        # It trains; what it computes cannot be traced yet.
        generator = torch.Generator().manual_seed(1)
        size = (MICRO_BATCH_SIZE, SEQUENCE, HIDDEN)
        data = [torch.randn(size, generator=generator) for _ in range(2 * SHARE * STEPS)]
        batches = zip(data[::2], data[1::2], strict=True)
        for _ in range(STEPS):
            engine.train_batch(batches)
        tt.trace(engine, out=out)
    finally:
        engine.destroy()
