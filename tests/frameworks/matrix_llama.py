"""A small Llama of transformers, as a job for `python -m ttrace_torch.matrix`."""

from __future__ import annotations

import torch
import transformers
from torch.distributed.tensor import DTensor

CONFIG = transformers.LlamaConfig(
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    vocab_size=64,
    use_cache=False,
    tie_word_embeddings=False,
)


def build():
    return transformers.LlamaForCausalLM(CONFIG)


def batches():
    ids = torch.randint(64, (4, 2, 8))
    return [{"input_ids": row, "labels": row} for row in ids]


def doubled():
    """The same, but a projection gives twice its result where its input is cut."""

    def build_doubled():
        model = build()
        projection = model.model.layers[1].mlp.down_proj
        right = projection.forward
        projection.forward = lambda x: right(2 * x if isinstance(x, DTensor) else x)
        return model

    return {"build": build_doubled, "batches": batches}


def granite():
    """A model that multiplies what its embedding returns."""
    settings = {**CONFIG.to_dict(), "embedding_multiplier": 12.0}
    settings.pop("architectures", None)
    config = transformers.GraniteConfig(**settings)
    return {"build": lambda: transformers.GraniteForCausalLM(config), "batches": batches}


def tied():
    def build_tied():
        return transformers.LlamaForCausalLM(
            transformers.LlamaConfig(**{**CONFIG.to_dict(), "tie_word_embeddings": True})
        )

    return {"build": build_tied, "batches": batches}
