"""Megatron-core 0.19.2: the prediction of further tokens (`mtp_num_layers`) with learned positions
and pipeline stages trains two tables of positions where the model has one.

The last stage predicts further tokens and has a copy of the embedding for that. The gradients of
the copies of the word embeddings are summed over both stages; those of the position embeddings are
not, since `default_position_embedding_ranks` names the first stage alone. With g_main of the usual
loss and g_ahead of the other, where the whole model has

    g_main + g_ahead,    the first stage has g_main, the last one g_ahead,

so that the copies differ after the first step, and a checkpoint keeps the first. Fails once it is
mended.
"""

from __future__ import annotations

import sys
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import megatron_on_cpu

megatron_on_cpu.install()

import torch  # noqa: E402
from common.two_ranks import RANKS, run_on_two  # noqa: E402
from megatron.core import parallel_state, tensor_parallel  # noqa: E402
from megatron.core.distributed import (  # noqa: E402
    DistributedDataParallel,
    DistributedDataParallelConfig,
    finalize_model_grads,
)
from megatron.core.models.gpt import GPTModel  # noqa: E402
from megatron.core.models.gpt.gpt_layer_specs import (  # noqa: E402
    get_gpt_decoder_block_spec,
    get_gpt_mtp_block_spec,
)
from megatron.core.pipeline_parallel import get_forward_backward_func  # noqa: E402
from megatron.core.transformer import TransformerConfig  # noqa: E402
from torch import distributed  # noqa: E402

SEQUENCE, BATCH, ROWS, MICRO_BATCHES = 6, 2, 16, 2
WORDS, POSITIONS = "word_embeddings.weight", "position_embeddings.weight"


def stage(stages):
    """This rank's stage of the model, or the whole model on every rank for one stage."""
    parallel_state.initialize_model_parallel(pipeline_model_parallel_size=stages)
    tensor_parallel.model_parallel_cuda_manual_seed(1)
    config = TransformerConfig(
        num_layers=2,
        hidden_size=16,
        num_attention_heads=2,
        mtp_num_layers=1,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        use_cpu_initialization=True,
        pipeline_dtype=torch.float32,
        pipeline_model_parallel_size=stages,
    )
    config.finalize_model_grads_func = finalize_model_grads
    spec = get_gpt_decoder_block_spec(config, use_transformer_engine=False)
    ahead = get_gpt_mtp_block_spec(config, spec, use_transformer_engine=False)
    for layer in ahead.layer_specs if ahead else ():
        for norm in ("enorm", "hnorm", "layer_norm"):
            setattr(layer.submodules, norm, megatron_on_cpu.SequenceParallelNorm)
    model = GPTModel(
        config=config,
        transformer_layer_spec=spec,
        mtp_block_spec=ahead,
        vocab_size=ROWS,
        max_sequence_length=SEQUENCE,
        pre_process=parallel_state.is_pipeline_first_stage(),
        post_process=parallel_state.is_pipeline_last_stage(),
        share_embeddings_and_output_weights=False,
        position_embedding_type="learned_absolute",
    )
    model.model_type = None
    for name, parameter in model.named_parameters():
        if stages > 1 and distributed.get_rank() == 1:
            # A stage counts its layers from 0.
            name = name.replace("decoder.layers.0.", "decoder.layers.1.")
        generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
        with torch.no_grad():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    return DistributedDataParallel(config, DistributedDataParallelConfig(), model)


def batches():
    """The same on every rank."""
    generator = torch.Generator().manual_seed(2)
    positions = torch.arange(SEQUENCE).expand(BATCH, SEQUENCE)
    mask = torch.triu(torch.ones(SEQUENCE, SEQUENCE, dtype=torch.bool), 1)[None, None]
    for _ in range(MICRO_BATCHES):
        tokens = torch.randint(ROWS, (BATCH, SEQUENCE + 1), generator=generator)
        yield tokens[:, :-1], positions, mask, tokens[:, 1:]


def gradients(stages):
    """The gradients that the optimizer gets, of the two tables of the embedding; by their names."""
    model = stage(stages)
    model.zero_grad_buffer()

    def forward_step(data, part):
        ids, positions, mask, labels = next(data)
        return part(ids, positions, mask, labels=labels), lambda losses: (losses.mean(), {})

    get_forward_backward_func()(
        forward_step_func=forward_step,
        data_iterator=batches(),
        model=model,
        num_microbatches=MICRO_BATCHES,
        seq_length=SEQUENCE,
        micro_batch_size=BATCH,
    )
    found = {
        name.rpartition("embedding.")[2]: parameter.main_grad.clone()
        for name, parameter in model.named_parameters()
        if name.endswith((WORDS, POSITIONS))
    }
    parallel_state.destroy_model_parallel()
    return found


def error(found, expected):
    return ((found - expected).norm() / expected.norm()).item()


def run(rank, folder):
    whole, own = gradients(1), gradients(RANKS)
    both = [torch.empty_like(own[POSITIONS]) for _ in range(RANKS)]
    distributed.all_gather(both, own[POSITIONS])
    alone = error(own[POSITIONS], whole[POSITIONS])
    summed = error(both[0] + both[1], whole[POSITIONS])
    print(
        f"stage {rank}: gradient of positions {alone:.3f} of its norm from the whole model's, the "
        f"sum of both stages {summed:.1e}; of words {error(own[WORDS], whole[WORDS]):.1e}"
    )
    assert error(own[WORDS], whole[WORDS]) < 1e-5, "the words are not summed either"
    assert summed < 1e-5, "the formula does not explain it"
    assert alone > 1e-2, "the gradients are summed: mended"


if __name__ == "__main__":
    run_on_two(run)
