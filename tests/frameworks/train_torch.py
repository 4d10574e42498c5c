"""A GPT trained with DDP, FSDP2 or DTensors, as a user would: the tracer's lines end in `# tt`."""

from __future__ import annotations

from contextlib import nullcontext

import torch
from small_gpt import GLOBAL_MICRO_BATCHES, LAYERS, STEPS, adam, get_batch, loss_of, small_gpt
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

import ttrace_torch as tt  # tt


def tensor_parallel(model, mesh, sequence, fault):
    """The model cut over `mesh`, with the residual stream cut along the sequence or whole."""
    residual = Shard(1) if sequence else Replicate()
    plan = {
        "embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=residual),
        "output": ColwiseParallel(input_layouts=residual, output_layouts=Replicate()),
    }
    block = {
        "attention": PrepareModuleInput(
            input_layouts=(residual,), desired_input_layouts=(Replicate(),)
        ),
        "attention.wq": ColwiseParallel(),
        "attention.wk": ColwiseParallel(),
        "attention.wv": ColwiseParallel(),
        "attention.wo": RowwiseParallel(output_layouts=residual),
        "feed_forward": PrepareModuleInput(
            input_layouts=(residual,), desired_input_layouts=(Replicate(),)
        ),
        "feed_forward.w1": ColwiseParallel(),
        "feed_forward.w2": RowwiseParallel(output_layouts=residual),
    }
    if sequence:
        plan["norm"] = SequenceParallel(use_local_output=True)
        block["ffn_norm"] = SequenceParallel(use_local_output=True)
        if fault != "norms_not_summed":
            block["attention_norm"] = SequenceParallel(use_local_output=True)
    parallelize_module(model, mesh, plan)
    for layer in model.layers.values():
        parallelize_module(layer, mesh, block)
    if fault == "doubled":
        broken = model.layers["0"].feed_forward.w2
        right = broken.forward
        broken.forward = lambda x: 2 * right(x)
    return model


def parallel(model, case, fault):
    """The model made parallel, the data-parallel ranks, and this one's number among them."""
    axes = case.get("axes", {})
    if case["kind"] == "ddp":
        model = nn.parallel.DistributedDataParallel(model)
        return model, distributed.get_world_size(), distributed.get_rank()
    if not axes:
        return model, 1, 0
    mesh = init_device_mesh("cpu", tuple(axes.values()), mesh_dim_names=tuple(axes))
    if "tp" in axes:
        model = tensor_parallel(model, mesh["tp"], case.get("sequence", False), fault)
    data = tuple(axis for axis in axes if axis != "tp")
    if not data:
        return model, 1, 0
    mesh = mesh[data]
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16 if case.get("bf16") else None)
    for layer in model.layers.values():
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    return model, mesh.size(), mesh.mesh.flatten().tolist().index(distributed.get_rank())


def clip(model):
    """Clips the gradients to a norm of 1, and gives the norm that they had."""
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    # Parameters may lie on several meshes, over which torch's own function does not sum.
    squares = [g.square().sum() for g in gradients]
    squares = [s.full_tensor() if isinstance(s, DTensor) else s for s in squares]
    norm = torch.stack(squares).sum().sqrt()
    for gradient in gradients:
        gradient.mul_(min(1.0, 1.0 / (norm.item() + 1e-6)))
    return norm


def main(case, out):
    fault = case.get("fault")
    model, ranks, rank = parallel(small_gpt(case.get("layers", LAYERS)), case, fault)
    optimizer = adam(model.parameters())
    noise = tt.Perturb(case["noise"]) if "noise" in case else None  # tt
    tracer = tt.trace(model, optimizer, out=out, perturb=noise)  # tt
    share = GLOBAL_MICRO_BATCHES // ranks
    for step in range(STEPS):
        with tracer.step(step):  # tt
            for number in range(share):
                last = number == share - 1 and fault != "no_sync"
                with tracer.microbatch(number, of=share):  # tt
                    if case["kind"] == "ddp":
                        accumulating = nullcontext() if last else model.no_sync()
                    else:
                        accumulating = nullcontext()
                    with accumulating:
                        ids, labels = get_batch(step, rank * share + number)
                        loss = loss_of(model(ids), labels)
                        tracer.loss(loss)  # tt
                        (loss / (1 if fault == "wrong_count" else share)).backward()
            tracer.main_grads()  # tt
            norm = clip(model)
            tracer.grad_norm(norm, clip_norm=1.0)  # tt
            optimizer.step()
            optimizer.zero_grad()
    tracer.close()  # tt
