"""A GPT trained in the stages of a pipeline: the tracer's lines end in `# tt`."""

from __future__ import annotations

import torch
from small_gpt import (
    GLOBAL_MICRO_BATCHES,
    HIDDEN,
    LAYERS,
    MICRO_BATCH_SIZE,
    SEQUENCE,
    STEPS,
    VOCABULARY,
    adam,
    get_batch,
    loss_of,
    small_gpt,
)
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleDualPipeV,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleZBVZeroBubble,
)
from torch.distributed.tensor import DTensor

import ttrace_torch as tt  # tt

SCHEDULES = {
    "gpipe": ScheduleGPipe,
    "1f1b": Schedule1F1B,
    "interleaved": ScheduleInterleaved1F1B,
    "zero_bubble": ScheduleInterleavedZeroBubble,
    "zbv": ScheduleZBVZeroBubble,
    "dualpipev": ScheduleDualPipeV,
}
# Schedules in the shape of a V: a rank has a stage from either end.
TURNING = ("zbv", "dualpipev")


def stage_module(index, stages, layers=LAYERS):
    """The layers of one stage, which keep the names that they have in the whole model."""
    model = small_gpt(layers)
    share = layers // stages
    for number in range(layers):
        if number // share != index:
            del model.layers[str(number)]
    if index > 0:
        model.embedding = None
    if index < stages - 1:
        model.norm = model.output = None
    return model


def stages_of(case, rank, ranks):
    """The numbers of a rank's stages, and how many stages there are."""
    count = ranks * case.get("stages", 1)
    if case["schedule"] in TURNING:
        return (rank, count - 1 - rank), count
    return tuple(range(rank, count, ranks)), count


def shapes(index, count, data):
    """What a stage takes and gives, so that it need not rehearse, which DDP would not survive."""
    if data != "ddp":
        return {}
    hidden = torch.empty(MICRO_BATCH_SIZE, SEQUENCE, HIDDEN, device="meta", requires_grad=True)
    ids = torch.empty(MICRO_BATCH_SIZE, SEQUENCE, dtype=torch.int64, device="meta")
    logits = torch.empty(MICRO_BATCH_SIZE, SEQUENCE, VOCABULARY, device="meta", requires_grad=True)
    return {
        "input_args": (hidden if index else ids,),
        "output_args": (hidden if index < count - 1 else logits,),
    }


def clip(modules, group):
    """Clips the gradients to a norm of 1 over all stages, and gives the norm that they had."""
    gradients = [p.grad for module in modules for p in module.parameters()]
    squares = [g.square().sum() for g in gradients]
    squares = [s.full_tensor() if isinstance(s, DTensor) else s for s in squares]
    total = torch.stack(squares).sum()
    distributed.all_reduce(total, group=group)
    norm = total.sqrt()
    for gradient in gradients:
        gradient.mul_(min(1.0, 1.0 / (norm.item() + 1e-6)))
    return norm


def main(case, out):
    fault, data = case.get("fault"), case.get("data")
    axes = {"dp": 2, "pp": 2} if data else {"pp": 2}
    mesh = init_device_mesh("cpu", tuple(axes.values()), mesh_dim_names=tuple(axes))
    group, ranks = mesh.get_group("pp"), axes.get("dp", 1)
    indices, count = stages_of(case, mesh.get_local_rank("pp"), mesh["pp"].size())
    modules, stages = [], []
    for index in indices:
        module = stage_module(index, count, case.get("layers", LAYERS))
        if data == "fsdp":
            fully_shard(module, mesh=mesh["dp"])
        elif data == "ddp":
            module = nn.parallel.DistributedDataParallel(module, process_group=mesh.get_group("dp"))
        modules.append(module)
        stages.append(
            PipelineStage(
                module, index, count, torch.device("cpu"), group=group, **shapes(index, count, data)
            )
        )
    share = GLOBAL_MICRO_BATCHES // ranks

    def loss_fn(logits, labels):
        loss = loss_of(logits, labels)
        tracer.loss(loss)  # tt
        return loss

    schedule = SCHEDULES[case["schedule"]](
        stages if len(stages) > 1 else stages[0],
        n_microbatches=share,
        loss_fn=loss_fn,
        scale_grads=fault != "not_scaled",
    )
    optimizer = adam([p for module in modules for p in module.parameters()])
    tracer = tt.trace(schedule, optimizer, out=out)  # tt
    first = share * (mesh.get_local_rank("dp") if data else 0)
    for step in range(STEPS):
        batches = [get_batch(step, number) for number in range(first, first + share)]
        ids, labels = (torch.cat(tensors) for tensors in zip(*batches, strict=True))
        if fault == "targets_swapped":
            labels = labels.roll(labels.shape[0] // share, 0)
        with tracer.step(step):  # tt
            inputs = [ids] if any(stage.is_first for stage in stages) else []
            schedule.step(*inputs, target=labels)
            tracer.main_grads()  # tt
            norm = clip(modules, group)
            tracer.grad_norm(norm, clip_norm=1.0)  # tt
            optimizer.step()
            optimizer.zero_grad()
    tracer.close()  # tt
