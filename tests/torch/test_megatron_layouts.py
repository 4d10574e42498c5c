"""How the activations of Megatron's modules lie, by class and by name, without Megatron."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from ttrace_torch.frameworks.megatron_layouts import module_layouts
from ttrace_torch.layout.placements import Shard

SIZES = {"tp": 2, "cp": 1, "pp": 1}


def layouts(*, latent):
    attention = type("MLASelfAttention" if latent else "SelfAttention", (nn.Module,), {})()
    attention.q_layernorm = nn.LayerNorm(4)
    modules = {name or "attention": module for name, module in attention.named_modules()}
    config = SimpleNamespace(sequence_parallel=True, multi_latent_attention=latent)
    return module_layouts(SimpleNamespace(modules=modules), config, SIZES, ())


@pytest.mark.parametrize("latent", [True, False])
def test_a_norm_of_queries_is_of_heads_unless_they_are_latent(latent):
    found = layouts(latent=latent)
    hidden, heads = {"tp": Shard(0)}, {"tp": Shard(2)}
    states = torch.zeros(2, 1, 4)
    assert found["attention"].of_input(0, states) == hidden
    norm = found["q_layernorm"].of_output(0, torch.zeros(2, 1, 4, 8))
    assert norm == (hidden if latent else heads)
