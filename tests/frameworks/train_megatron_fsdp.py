"""The small GPT trained by megatron-fsdp, as a user would: the tracer's lines end in `# tt`."""

from __future__ import annotations

import megatron_fsdp
import torch
from hunt.train_options import changed, optimizer_of
from small_gpt import GLOBAL_MICRO_BATCHES, STEPS, Block, adam, get_batch, loss_of, small_gpt
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh

import ttrace_torch as tt  # tt


def main(case, out):
    ranks, rank = distributed.get_world_size(), distributed.get_rank()
    fault = case.get("fault")
    settings = case.get("settings", {})
    model = changed(small_gpt(), case)
    precision = {"main_params_dtype": "float32", "main_grads_dtype": "float32"}
    precision |= case.get("precision", {})
    model, optimizer = megatron_fsdp.fully_shard(
        model,
        # There "zero" is an optimizer of torch.
        optimizer_of(model, {**case, "zero": None})
        if "optimizer" in case
        else adam(model.parameters()),
        device_mesh=init_device_mesh("cpu", (ranks, 1), mesh_dim_names=("dp", "tp")),
        dp_shard_dim="dp",
        tp_dim="tp",
        fsdp_unit_modules=[Block],
        zero_dp_strategy=case["zero"],
        sync_model_each_microbatch=case.get("each", False),
        mixed_precision_policy=megatron_fsdp.MixedPrecisionPolicy(
            **{name: getattr(torch, dtype) for name, dtype in precision.items() if dtype}
        ),
        **settings,
    )
    if fault == "wrong_shard":
        with torch.no_grad():
            dict(model.module.named_parameters())["layers.1.feed_forward.w1.weight"].mul_(1.05)
    noise = tt.Perturb(case["noise"]) if "noise" in case else None  # tt
    tracer = tt.trace(model, optimizer, out=out, perturb=noise)  # tt
    share = GLOBAL_MICRO_BATCHES // ranks
    # With calculate_per_token_loss gradients are summed over the ranks.
    parts = share * (ranks if settings.get("calculate_per_token_loss") else 1)
    losses = []
    for step in range(STEPS):
        with tracer.step(step):  # tt
            for number in range(share):
                given = rank * share + number
                ids, labels = get_batch(step, given ^ 1 if fault == "swapped" else given)
                if not case.get("each"):
                    model.set_model_auto_sync(number == share - 1)
                loss = loss_of(model(ids), labels)
                tracer.loss(loss)  # tt
                (loss / (1 if fault == "wrong_scale" else parts)).backward()
                losses.append(loss.item())
            optimizer.step()
            optimizer.zero_grad()
    tracer.close()  # tt
    return losses
