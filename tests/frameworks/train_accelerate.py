"""A model of transformers trained with accelerate: the tracer's lines end in `# tt`."""

from __future__ import annotations

from contextlib import nullcontext

import torch
from accelerate import Accelerator, PartialState
from accelerate.state import AcceleratorState
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin
from torch import distributed
from torch.utils.data import DataLoader
from train_trainer import Tokens
from train_transformers import MICRO_BATCHES, STEPS, whole_model

import ttrace_torch as tt  # tt


def accelerator_of(case, share):
    AcceleratorState._reset_state(reset_partial_state=True)
    if not case.get("fsdp2") or distributed.get_world_size() == 1:
        return Accelerator(cpu=True, gradient_accumulation_steps=share)
    # accelerate ignores the plugin unless its state says that it runs on several GPUs.
    PartialState(cpu=True)._shared_state["distributed_type"] = DistributedType.MULTI_GPU
    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2,
        auto_wrap_policy="transformer_based_wrap",
        transformer_cls_names_to_wrap=["LlamaDecoderLayer"],
    )
    return Accelerator(fsdp_plugin=plugin, gradient_accumulation_steps=share)


def main(case, out):
    share = MICRO_BATCHES // distributed.get_world_size()
    fault = case.get("fault")
    scale = 2 if fault == "wrong_scale" else 1
    accelerator = accelerator_of(case, share)
    model = whole_model(case)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-3)
    data = DataLoader(Tokens(fault == "swapped"), batch_size=2)
    model, optimizer, data = accelerator.prepare(model, optimizer, data)
    noise = tt.Perturb(case["noise"]) if "noise" in case else None  # tt
    tracer = tt.trace(model, optimizer, out=out, perturb=noise)  # tt
    batches = iter(data)
    losses = []
    for step in range(STEPS):
        with tracer.step(step):  # tt
            for _ in range(share):
                with accelerator.accumulate(model):
                    with model.no_sync() if fault == "no_sync" else nullcontext():
                        loss = model(**next(batches)).loss
                        tracer.loss(loss)  # tt
                        accelerator.backward(scale * loss)
                    if accelerator.sync_gradients:
                        tracer.main_grads()  # tt
                        norm = accelerator.clip_grad_norm_(model.parameters(), 1.0)
                        norm = getattr(norm, "full_tensor", lambda n=norm: n)()
                        tracer.grad_norm(norm, clip_norm=1.0)  # tt
                    optimizer.step()
                    optimizer.zero_grad()
                losses.append(loss.item())
    tracer.close()  # tt
    return losses
