"""A small GPT trained by Megatron-core, as a user would: the lines of the tracer end in `# tt`."""

from __future__ import annotations

import torch
from context_attention import ContextAttention, zigzag
from megatron.core import parallel_state, tensor_parallel
from megatron.core.distributed import (
    DistributedDataParallel,
    DistributedDataParallelConfig,
    finalize_model_grads,
)
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import (
    get_gpt_decoder_block_spec,
    get_gpt_mtp_block_spec,
)
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.pipeline_parallel import get_forward_backward_func
from megatron.core.transformer import MLATransformerConfig, TransformerConfig
from megatron.core.transformer.module import Float16Module
from megatron_on_cpu import SequenceParallelNorm

import ttrace_torch as tt  # tt

SEQUENCE, HIDDEN, LAYERS = 8, 32, 4
# Tokens, and the rows of the embedding: padded, as the largest tensor-parallel job needs it.
VOCABULARY, ROWS = 61, 64
MICRO_BATCH_SIZE, GLOBAL_MICRO_BATCHES, STEPS = 2, 4, 2


def block_spec(config, vp_stage=None):
    spec = get_gpt_decoder_block_spec(config, use_transformer_engine=False, vp_stage=vp_stage)
    spec.layer_norm = SequenceParallelNorm
    for layer in spec.layer_specs:
        layer.submodules.input_layernorm = SequenceParallelNorm
        layer.submodules.pre_mlp_layernorm = SequenceParallelNorm
        attention = layer.submodules.self_attention.submodules
        if config.qk_layernorm and config.sequence_parallel:
            attention.q_layernorm = attention.k_layernorm = SequenceParallelNorm
            # That of latent attention.
            attention.kv_layernorm = SequenceParallelNorm
        if config.context_parallel_size > 1 or config.multi_latent_attention:
            attention.core_attention = ContextAttention
    return spec


def ahead_spec(config, spec, vp_stage=None):
    """What predicts further tokens."""
    spec = get_gpt_mtp_block_spec(config, spec, use_transformer_engine=False, vp_stage=vp_stage)
    for layer in spec.layer_specs if spec else ():
        for norm in ("enorm", "hnorm", "layer_norm"):
            setattr(layer.submodules, norm, SequenceParallelNorm)
    return spec


def build_model(config, case, vp_stage=None):
    where = {"ignore_virtual": False, "vp_stage": vp_stage}
    spec = block_spec(config, vp_stage)
    model = GPTModel(
        config=config,
        transformer_layer_spec=spec,
        mtp_block_spec=ahead_spec(config, spec, vp_stage) if config.mtp_num_layers else None,
        vocab_size=ROWS,
        max_sequence_length=SEQUENCE,
        pre_process=parallel_state.is_pipeline_first_stage(**where),
        post_process=parallel_state.is_pipeline_last_stage(**where),
        share_embeddings_and_output_weights=case.get("tied", True),
        position_embedding_type=case.get("positions", "learned_absolute"),
        vp_stage=vp_stage,
    )
    model.model_type = None
    return Float16Module(config, model) if config.bf16 else model


def get_batch(step, number):
    """Token numbers, positions, mask and labels of this context-parallel rank."""
    generator = torch.Generator().manual_seed(1000 * step + number)
    size = (MICRO_BATCH_SIZE, SEQUENCE + 1)
    data = torch.randint(VOCABULARY, size, generator=generator)
    positions = torch.arange(SEQUENCE).expand(MICRO_BATCH_SIZE, SEQUENCE)
    mask = torch.triu(torch.ones(SEQUENCE, SEQUENCE, dtype=torch.bool), 1)[None, None]
    parts = ((data[:, :-1], 1), (positions, 1), (mask, 2), (data[:, 1:], 1))
    return [zigzag(tensor, dim) for tensor, dim in parts]


def configure(case):
    """The configurations of the model, of the reduction of gradients, and of the optimizer."""
    given = case.get("config", {})
    half = {"bf16": True} if given.get("bf16") else {}
    dtype = torch.bfloat16 if half else torch.float32
    cls = MLATransformerConfig if given.get("multi_latent_attention") else TransformerConfig
    config = cls(
        hidden_size=HIDDEN,
        num_attention_heads=4,
        use_cpu_initialization=True,
        attention_dropout=0.0,
        params_dtype=dtype,
        pipeline_dtype=dtype,
        tensor_model_parallel_size=parallel_state.get_tensor_model_parallel_world_size(),
        pipeline_model_parallel_size=parallel_state.get_pipeline_model_parallel_world_size(),
        context_parallel_size=parallel_state.get_context_parallel_world_size(),
        expert_model_parallel_size=parallel_state.get_expert_model_parallel_world_size(),
        expert_tensor_parallel_size=parallel_state.get_expert_tensor_parallel_world_size(),
        **{"num_layers": LAYERS, "hidden_dropout": 0.0, **given},
    )
    config.finalize_model_grads_func = finalize_model_grads
    reduction = {"grad_reduce_in_fp32": bool(half), **case.get("reduction", {})}
    optimizer_config = {
        "optimizer": "adam",
        "lr": 0.01,
        "weight_decay": 0.1,
        # The key's bias has a gradient of rounding errors alone, of which Adam's usual epsilon
        # would make whole steps.
        "adam_eps": 1e-3,
        "clip_grad": 1.0,
        "params_dtype": dtype,
        "use_distributed_optimizer": reduction.get("use_distributed_optimizer", False),
        **half,
        **case.get("optimizer", {}),
    }
    return config, DistributedDataParallelConfig(**reduction), OptimizerConfig(**optimizer_config)


def main(case, out):
    tensor_parallel.model_parallel_cuda_manual_seed(1234)
    config, ddp_config, optimizer_config = configure(case)
    virtual = config.virtual_pipeline_model_parallel_size
    chunks = [build_model(config, case, stage) for stage in (range(virtual) if virtual else [None])]
    model = [DistributedDataParallel(config, ddp_config, chunk) for chunk in chunks]
    tt.consistent_init(model, std=0.2)  # tt
    optimizer = get_megatron_optimizer(optimizer_config, model)
    if ddp_config.overlap_grad_reduce:
        config.no_sync_func = [chunk.no_sync for chunk in model]
        config.no_sync_func = config.no_sync_func if virtual else config.no_sync_func[0]
    noise = tt.Perturb(case["noise"]) if "noise" in case else None  # tt
    tracer = tt.trace(model, optimizer, out=out, perturb=noise)  # tt

    def loss_of(output):
        tokens = torch.tensor(output.numel(), dtype=torch.int)
        loss = output.float().sum()
        tracer.loss(loss, {"cp": tt.Partial("sum")})  # tt
        # A planted fault of the user's: divided by what Megatron divides by anyway.
        return loss / case.get("divided_by", 1), tokens, {"loss": loss.detach()}

    def forward_step(data, chunk):
        ids, positions, mask, labels = next(data)
        return chunk(ids, positions, mask, labels=labels), loss_of

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
