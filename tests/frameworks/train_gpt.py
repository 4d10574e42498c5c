"""A small GPT trained by Megatron-core, as a user would: the lines of the tracer end in `# tt`."""

from __future__ import annotations

import zlib
from functools import partial

import torch
from megatron.core import parallel_state, tensor_parallel
from megatron.core.distributed import (
    DistributedDataParallel,
    DistributedDataParallelConfig,
    finalize_model_grads,
)
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.pipeline_parallel import get_forward_backward_func
from megatron.core.transformer import TransformerConfig
from megatron_on_cpu import SequenceParallelNorm

import ttrace_torch as tt  # tt

SEQUENCE, VOCABULARY, HIDDEN, LAYERS = 8, 64, 32, 4
MICRO_BATCH_SIZE, GLOBAL_MICRO_BATCHES, STEPS = 2, 4, 2


def block_spec(config, vp_stage=None):
    spec = get_gpt_decoder_block_spec(config, use_transformer_engine=False, vp_stage=vp_stage)
    spec.layer_norm = SequenceParallelNorm
    for layer in spec.layer_specs:
        layer.submodules.input_layernorm = SequenceParallelNorm
        layer.submodules.pre_mlp_layernorm = SequenceParallelNorm
        if config.qk_layernorm and config.sequence_parallel:
            attention = layer.submodules.self_attention.submodules
            attention.q_layernorm = attention.k_layernorm = SequenceParallelNorm
    return spec


def build_model(config, case, vp_stage=None):
    where = {"ignore_virtual": False, "vp_stage": vp_stage}
    model = GPTModel(
        config=config,
        transformer_layer_spec=block_spec(config, vp_stage),
        vocab_size=VOCABULARY,
        max_sequence_length=SEQUENCE,
        pre_process=parallel_state.is_pipeline_first_stage(**where),
        post_process=parallel_state.is_pipeline_last_stage(**where),
        share_embeddings_and_output_weights=case.get("tied", True),
        position_embedding_type=case.get("positions", "learned_absolute"),
        vp_stage=vp_stage,
    )
    model.model_type = None
    return model


def whole_name(name, model):
    """What the parameter is called in the whole model; written apart from the collector's way."""
    parts = name.split(".")
    if parts[:2] == ["decoder", "layers"]:
        parts[2] = str(model.decoder.layers[int(parts[2])].layer_number - 1)
    if "local_experts" in parts:
        place = parts.index("local_experts") + 1
        experts = model.config.num_moe_experts
        share = experts // parallel_state.get_expert_model_parallel_world_size()
        first = share * parallel_state.get_expert_model_parallel_rank()
        parts[place] = str(int(parts[place]) + first)
    name = ".".join(parts)
    tied = model.share_embeddings_and_output_weights
    return "embedding.word_embeddings.weight" if tied and name == "output_layer.weight" else name


def initialise(model):
    """The same weights in every layout: drawn for the whole parameter, then cut."""
    for name, parameter in model.named_parameters():
        name = whole_name(name, model)
        shape = list(parameter.shape)
        cut = getattr(parameter, "tensor_model_parallel", False)
        expert = not getattr(parameter, "allreduce", True)
        if expert:
            world = parallel_state.get_expert_tensor_parallel_world_size()
            rank = parallel_state.get_expert_tensor_parallel_rank()
        else:
            world = parallel_state.get_tensor_model_parallel_world_size()
            rank = parallel_state.get_tensor_model_parallel_rank()
        if cut:
            shape[parameter.partition_dim] *= world
        generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
        whole = 0.2 * torch.randn(shape, generator=generator)
        if "norm" in name and name.endswith("weight"):
            whole += 1.0
        if cut:
            dim = parameter.partition_dim
            gated = model.config.gated_linear_unit and ".linear_fc1." in name
            stride = 2 if gated else 1
            pieces = whole.chunk(stride * world, dim)
            whole = torch.cat(pieces[rank::world], dim)
        parameter.data.copy_(whole)


def get_batch(step, number):
    generator = torch.Generator().manual_seed(1000 * step + number)
    size = (MICRO_BATCH_SIZE, SEQUENCE + 1)
    data = torch.randint(VOCABULARY, size, generator=generator)
    positions = torch.arange(SEQUENCE).expand(MICRO_BATCH_SIZE, SEQUENCE).contiguous()
    mask = torch.triu(torch.ones(SEQUENCE, SEQUENCE, dtype=torch.bool), 1)[None, None]
    return data[:, :-1].contiguous(), positions, mask, data[:, 1:].contiguous()


def main(case, out):
    tensor_parallel.model_parallel_cuda_manual_seed(1234)
    config = TransformerConfig(
        num_layers=LAYERS,
        hidden_size=HIDDEN,
        num_attention_heads=4,
        use_cpu_initialization=True,
        attention_dropout=0.0,
        hidden_dropout=0.0,
        pipeline_dtype=torch.float32,
        tensor_model_parallel_size=parallel_state.get_tensor_model_parallel_world_size(),
        pipeline_model_parallel_size=parallel_state.get_pipeline_model_parallel_world_size(),
        expert_model_parallel_size=parallel_state.get_expert_model_parallel_world_size(),
        expert_tensor_parallel_size=parallel_state.get_expert_tensor_parallel_world_size(),
        **case.get("config", {}),
    )
    ddp_config = DistributedDataParallelConfig(
        use_distributed_optimizer=case.get("distributed_optimizer", False),
        overlap_grad_reduce=False,
    )
    virtual = config.virtual_pipeline_model_parallel_size
    chunks = [build_model(config, case, stage) for stage in (range(virtual) if virtual else [None])]
    for chunk in chunks:
        initialise(chunk)
    model = [DistributedDataParallel(config, ddp_config, chunk) for chunk in chunks]
    optimizer_config = OptimizerConfig(
        optimizer="adam",
        lr=0.01,
        weight_decay=0.1,
        # The key's bias has a gradient of rounding errors alone, of which Adam's usual epsilon
        # would make whole steps.
        adam_eps=1e-3,
        clip_grad=1.0,
        use_distributed_optimizer=case.get("distributed_optimizer", False),
    )
    optimizer = get_megatron_optimizer(optimizer_config, model)
    config.finalize_model_grads_func = case.get("finalize", finalize_model_grads)
    noise = tt.Disturb(case["noise"]) if "noise" in case else None  # tt
    tracer = tt.trace(model, optimizer, out=out, disturb=noise)  # tt

    def loss_of(labels, output):
        loss = output.float().mean()
        tracer.loss(loss)  # tt
        return loss, {"loss": loss.detach()}

    def forward_step(data, chunk):
        ids, positions, mask, labels = next(data)
        return chunk(ids, positions, mask, labels=labels), partial(loss_of, labels)

    share = GLOBAL_MICRO_BATCHES // parallel_state.get_data_parallel_world_size()
    first = share * parallel_state.get_data_parallel_rank()
    for step in range(STEPS):
        numbers = range(first, first + share)
        data = [iter([get_batch(step, number) for number in numbers]) for _ in model]
        for chunk in model:
            chunk.zero_grad_buffer()
        optimizer.zero_grad()
        with tracer.step(step):  # tt
            get_forward_backward_func()(
                forward_step_func=forward_step,
                data_iterator=data if virtual else data[0],
                model=model if virtual else model[0],
                num_microbatches=share,
                seq_length=SEQUENCE,
                micro_batch_size=MICRO_BATCH_SIZE,
            )
            optimizer.step()
    tracer.close()  # tt
