"""Hugging Face models of at least 100 million parameters, with random weights."""

from __future__ import annotations

import torch
from transformers import (
    AutoModelForCausalLM,
    Glm4MoeConfig,
    GPT2Config,
    LlamaConfig,
    Qwen3MoeConfig,
)


def _gpt2(tiny):
    """The released one, of 124 million; without dropout."""
    small = {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 199} if tiny else {}
    return GPT2Config(attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0, **small)


def _llama(tiny):
    return LlamaConfig(
        hidden_size=64 if tiny else 768,
        intermediate_size=96 if tiny else 2048,
        num_hidden_layers=2 if tiny else 12,
        num_attention_heads=4 if tiny else 12,
        num_key_value_heads=2 if tiny else 4,
        vocab_size=198 if tiny else 32000,
    )


def _moe(tiny):
    return Qwen3MoeConfig(
        hidden_size=64 if tiny else 512,
        moe_intermediate_size=32 if tiny else 512,
        num_experts=8 if tiny else 16,
        num_experts_per_tok=2 if tiny else 4,
        norm_topk_prob=True,
        num_hidden_layers=2 if tiny else 6,
        num_attention_heads=4 if tiny else 8,
        num_key_value_heads=2 if tiny else 4,
        head_dim=16 if tiny else 64,
        vocab_size=198 if tiny else 32000,
    )


def _balanced(tiny):
    """Experts with a bias that no gradient moves, as in DeepSeek-V3."""
    return Glm4MoeConfig(
        hidden_size=64 if tiny else 512,
        intermediate_size=96 if tiny else 1024,
        moe_intermediate_size=32 if tiny else 512,
        n_routed_experts=8 if tiny else 16,
        num_experts_per_tok=2 if tiny else 4,
        num_hidden_layers=2 if tiny else 6,
        num_attention_heads=4 if tiny else 8,
        num_key_value_heads=2 if tiny else 4,
        vocab_size=198 if tiny else 32000,
        max_position_embeddings=256,
    )


_CONFIGS = {"gpt2": _gpt2, "llama": _llama, "moe": _moe, "balanced": _balanced}


def build(name, dtype, tiny):
    """The model with weights of that type; every rank makes the same."""
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(_CONFIGS[name](tiny), dtype=dtype).train()


def layers(model):
    """The list of transformer layers."""
    return model.transformer.h if hasattr(model, "transformer") else model.model.layers
