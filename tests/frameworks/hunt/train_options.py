"""The small GPT, trained with one option of torch or another: what `torch_rows.py` lists.

A case says how the model is wrapped, and what else is set; what it leaves out is plain.
"""

from __future__ import annotations

from contextlib import ExitStack, nullcontext

import torch
from small_gpt import GLOBAL_MICRO_BATCHES, STEPS, get_batch, small_gpt
from torch import distributed, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.model_averaging import averagers
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.experimental import context_parallel
from torch.distributed.tensor.parallel import ColwiseParallel, loss_parallel, parallelize_module
from torch.utils.checkpoint import checkpoint
from train_torch import clip as clip_by_hand
from train_torch import tensor_parallel

import ttrace_torch as tt

BF16 = torch.bfloat16


def ddp(model, case):
    model = nn.parallel.DistributedDataParallel(model, **case.get("ddp", {}))
    if "hook" in case:
        model.register_comm_hook(None, getattr(default_hooks, case["hook"]))
    return model


def sharded(model, case):
    """FSDP2 over all ranks, or over a mesh of replicas and shards."""
    axes = case["axes"]
    mesh = init_device_mesh("cpu", tuple(axes.values()), mesh_dim_names=tuple(axes))
    settings = dict(case.get("fsdp", {}))
    precision = settings.pop("precision", {})
    settings["mp_policy"] = MixedPrecisionPolicy(**dict.fromkeys(precision, BF16))
    if settings.pop("offload", False):
        settings["offload_policy"] = CPUOffloadPolicy(pin_memory=False)
    if settings.pop("columns", False):
        settings["shard_placement_fn"] = lambda p: Shard(p.dim() - 1)
    for layer in model.layers.values():
        fully_shard(layer, mesh=mesh, **settings)
    return fully_shard(model, mesh=mesh, **settings)


def parallel(model, case):
    """Columns of the head stay on their ranks where the loss is computed in parallel."""
    mesh = init_device_mesh("cpu", (distributed.get_world_size(),), mesh_dim_names=("tp",))
    head = model.output
    model.output = None
    model = tensor_parallel(model, mesh, case.get("sequence", False), None)
    model.output = head
    plan = ColwiseParallel(
        input_layouts=Shard(1) if case.get("sequence") else Replicate(),
        output_layouts=Shard(-1),
        use_local_output=False,
    )
    parallelize_module(model, mesh, {"output": plan})
    return model


def plain(model, case):
    return model


# Under context parallelism the model stays as it is.
WRAPPED = {"ddp": ddp, "fsdp": sharded, "tp": parallel, "cp": plain, "none": plain}


def changed(model, case):
    """The model itself with what the case says of it, before it is wrapped."""
    if case.get("tied"):
        model.output.weight = model.embedding.weight
    for name, parameter in model.named_parameters():
        frozen = case.get("frozen")
        if frozen and frozen in name:
            parameter.requires_grad_(False)
    if case.get("half"):
        model.to(BF16)
    if "float8" in case:
        from torchao import float8

        settings = float8.Float8LinearConfig(emulate=True, **case["float8"])
        float8.convert_to_float8_training(
            model, config=settings, module_filter_fn=lambda _, name: name.startswith("layers.")
        )
    for number, layer in model.layers.items():
        if case.get("checkpoint"):
            forward = layer.forward
            layer.forward = lambda x, f=forward: checkpoint(f, x, use_reentrant=False)
        if case.get("compiled"):
            model.layers[number] = torch.compile(layer, backend="aot_eager")
    return model


def optimizer_of(model, case):
    name, settings = case.get("optimizer", ["AdamW", {"foreach": False}])
    settings = {"lr": 0.01, **settings}
    if name in ("Adam", "AdamW", "NAdam", "RAdam", "Adamax"):
        # An epsilon that keeps gradients of rounding errors alone from becoming whole steps.
        settings.setdefault("eps", 1e-3)
    cls = getattr(torch.optim, name)
    parameters = [p for p in model.parameters() if p.requires_grad]
    if case.get("matrices"):
        parameters = [p for p in parameters if p.dim() == 2]
    if case.get("zero"):
        return ZeroRedundancyOptimizer(parameters, cls, **settings)
    optimizer = cls(parameters, **settings)
    if case.get("averaged"):
        averager = averagers.PeriodicModelAverager(period=1, warmup_steps=0)
        return PostLocalSGDOptimizer(optimizer, averager)
    return optimizer


def loss_of(logits, labels, case):
    settings = dict(case.get("loss", {}))
    if settings.pop("weighted", False):
        settings["weight"] = torch.linspace(0.5, 1.5, logits.shape[-1], dtype=logits.dtype)
    return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), **settings)


def no_sync(model, case, last):
    """Where gradients stay on their ranks until the last micro-batch."""
    how = case.get("accumulate")
    if how == "no_sync":
        return nullcontext() if last else model.no_sync()
    if how:
        getattr(model, how)(last)
    return nullcontext()


def clip(model, case):
    if case.get("wrap") == "tp":
        # torch's own takes no plain parameters, such as norms, beside cut ones.
        return clip_by_hand(model)
    most, kind, foreach = case.get("clip", [1.0, 2.0, None])
    parameters = list(model.parameters())
    norm = nn.utils.clip_grad_norm_(parameters, most, float(kind), foreach=foreach)
    return norm.full_tensor() if isinstance(norm, DTensor) else norm


def main(case, out):
    model = WRAPPED[case.get("wrap", "none")](changed(small_gpt(), case), case)
    optimizer = optimizer_of(model, case)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0) if case.get("scaled") else None
    noise = tt.Perturb(case["noise"]) if "noise" in case else None
    ranks = distributed.get_world_size()
    cut = init_device_mesh("cpu", (ranks,)) if case.get("wrap") == "cp" else None
    mesh = tt.Mesh({"cp": ranks}) if cut else None
    tracer = tt.trace(model, optimizer, out=out, perturb=noise, scaler=scaler, mesh=mesh)
    data = ranks if case.get("wrap") in ("ddp", "fsdp") else 1
    share = GLOBAL_MICRO_BATCHES // data
    first = share * (distributed.get_rank() if data > 1 else 0)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5) if case.get("schedule") else None

    def backward(step):
        for number in range(share):
            with ExitStack() as stack:
                stack.enter_context(no_sync(model, case, number == share - 1))
                if case.get("wrap") == "tp":
                    stack.enter_context(loss_parallel())
                ids, labels = get_batch(step, first + number)
                if cut:
                    stack.enter_context(
                        context_parallel(cut, buffers=[ids, labels], buffer_seq_dims=[1, 1])
                    )
                with torch.autocast("cpu", BF16, enabled=case.get("autocast", False)):
                    loss = loss_of(model(ids), labels, case)
                tracer.loss(loss.full_tensor() if isinstance(loss, DTensor) else loss)
                loss = loss / share
                (scaler.scale(loss) if scaler else loss).backward()
        return loss

    for step in range(STEPS):
        with tracer.step(step):
            backward(step)
            if scaler:
                scaler.unscale_(optimizer)
            tracer.main_grads()
            tracer.grad_norm(clip(model, case), clip_norm=case.get("clip", [1.0])[0])
            scaler.step(optimizer) if scaler else optimizer.step()
            if scaler:
                scaler.update()
            optimizer.zero_grad(set_to_none=not case.get("kept_gradients", False))
        if schedule:
            schedule.step()
    tracer.close()
