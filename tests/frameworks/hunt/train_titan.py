"""The small GPT as torchtitan trains models: tensor parallelism in every stage of a pipeline, every
block compiled, all of it under FSDP2. A case names the axes that it has: pp, dp, tp."""

from __future__ import annotations

import torch
from small_gpt import GLOBAL_MICRO_BATCHES, STEPS, adam, get_batch, loss_of, small_gpt
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleInterleaved1F1B
from train_pipeline import clip as clip_stages
from train_pipeline import stage_module
from train_torch import clip, tensor_parallel

import ttrace_torch as tt

STAGES_OF_A_RANK = 2


def parallel(model, mesh, case):
    """In the order of torchtitan: tensor parallelism, compilation, FSDP2."""
    axes = case["axes"]
    if "tp" in axes:
        model = tensor_parallel(model, mesh["tp"], case.get("sequence", False), None)
    if case.get("compiled", True):
        backend = case.get("backend", "aot_eager")
        for layer in model.layers.values():
            layer.compile(backend=backend)
    if "dp" in axes:
        for layer in model.layers.values():
            fully_shard(layer, mesh=mesh["dp"])
        fully_shard(model, mesh=mesh["dp"])
    return model


def main(case, out):
    axes = case["axes"]
    mesh = init_device_mesh("cpu", tuple(axes.values()), mesh_dim_names=tuple(axes))
    share = GLOBAL_MICRO_BATCHES // axes.get("dp", 1)
    first = share * (mesh.get_local_rank("dp") if "dp" in axes else 0)
    if "pp" in axes:
        return train_stages(case, mesh, range(first, first + share), out)
    model = parallel(small_gpt(), mesh, case)
    optimizer = adam(model.parameters())
    tracer = tt.trace(model, optimizer, out=out)
    for step in range(STEPS):
        with tracer.step(step):
            for number in range(first, first + share):
                ids, labels = get_batch(step, number)
                loss = tracer.loss(loss_of(model(ids), labels))
                (loss / share).backward()
            tracer.main_grads()
            tracer.grad_norm(clip(model), clip_norm=1.0)
            optimizer.step()
            optimizer.zero_grad()
    tracer.close()
    return None


def train_stages(case, mesh, numbers, out):
    group, place = mesh.get_group("pp"), mesh.get_local_rank("pp")
    count = STAGES_OF_A_RANK * mesh["pp"].size()
    modules, stages = [], []
    for index in range(place, count, mesh["pp"].size()):
        modules.append(parallel(stage_module(index, count), mesh, case))
        device = torch.device("cpu")
        stages.append(PipelineStage(modules[-1], index, count, device, group=group))

    def loss_fn(logits, labels):
        return tracer.loss(loss_of(logits, labels))

    schedule = ScheduleInterleaved1F1B(stages, n_microbatches=len(numbers), loss_fn=loss_fn)
    optimizer = adam([p for module in modules for p in module.parameters()])
    tracer = tt.trace(schedule, optimizer, out=out)
    for step in range(STEPS):
        batches = [get_batch(step, number) for number in numbers]
        ids, labels = (torch.cat(tensors) for tensors in zip(*batches, strict=True))
        with tracer.step(step):
            inputs = [ids] if any(stage.is_first for stage in stages) else []
            schedule.step(*inputs, target=labels)
            tracer.main_grads()
            tracer.grad_norm(clip_stages(modules, group), clip_norm=1.0)
            optimizer.step()
            optimizer.zero_grad()
    tracer.close()
