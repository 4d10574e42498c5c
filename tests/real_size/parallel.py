"""Models made parallel with DDP, FSDP2, DTensor tensor parallelism, or the last two together."""

from __future__ import annotations

from torch import bfloat16, distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

from real_size import faults
from real_size.models import layers


def parallelized(model, training):
    """The model made parallel, how many ranks share out the data, and which of them this is."""
    # Several faults are "one+other".
    fault, axes = training.get("fault", "").split("+"), training["axes"]
    if "not_normalised" in fault:
        faults.not_normalised(model)
    if training["layout"] == "ddp":
        if "mlp_not_synchronised" in fault:
            faults.mlp_not_synchronised(model)
        model = nn.parallel.DistributedDataParallel(model)
        return model, distributed.get_world_size(), distributed.get_rank()
    if not axes:
        return model, 1, 0
    mesh = init_device_mesh("cpu", tuple(axes.values()), mesh_dim_names=tuple(axes))
    if "tp" in axes:
        _cut(model, mesh["tp"], fault)
    if "dp" not in axes:
        return model, 1, 0
    data = mesh["dp"]
    policy = MixedPrecisionPolicy()
    if training["precision"] == "bf16":
        policy = MixedPrecisionPolicy(param_dtype=bfloat16)
    for layer in layers(model):
        fully_shard(layer, mesh=data, mp_policy=policy)
    fully_shard(model, mesh=data, mp_policy=policy)
    if "summed" in fault:
        faults.divided_by(model, 1.0)
    if "divided_by_all" in fault:
        faults.divided_by(model, float(mesh.size()))
    return model, data.size(), data.get_local_rank()


def _cut(model, mesh, fault):
    """Tensor parallelism of a Llama."""
    parallelize_module(
        model,
        mesh,
        {
            "model.embed_tokens": RowwiseParallel(input_layouts=Replicate()),
            "lm_head": ColwiseParallel(output_layouts=Replicate()),
        },
    )
    for number, layer in enumerate(layers(model)):
        wrong = "not_reduced" in fault and number == faults.middle(model)
        parallelize_module(
            layer,
            mesh,
            {
                "self_attn.q_proj": ColwiseParallel(),
                "self_attn.k_proj": ColwiseParallel(),
                "self_attn.v_proj": ColwiseParallel(),
                "self_attn.o_proj": RowwiseParallel(),
                "mlp.gate_proj": ColwiseParallel(),
                "mlp.up_proj": ColwiseParallel(),
                "mlp.down_proj": faults.NotReduced() if wrong else RowwiseParallel(),
            },
        )
