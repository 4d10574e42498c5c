"""How the activations of Megatron's modules lie, by class and by name, without Megatron."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from ttrace_torch.base.names import ModelNames
from ttrace_torch.capture.calls import CallCounter
from ttrace_torch.frameworks.megatron_layouts import module_layouts
from ttrace_torch.frameworks.megatron_names import TIED, MegatronNaming
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


def last_stage(*, ahead):
    """Of a model with a tied head."""
    model = nn.Module()
    model.decoder = nn.Module()
    model.output_layer = nn.Linear(4, 8, bias=False)
    model.pre_process, model.share_embeddings_and_output_weights = False, True
    if ahead:
        model.embedding = nn.Module()
        model.embedding.word_embeddings = nn.Embedding(8, 4)
        model.mtp = type("MultiTokenPredictionBlock", (nn.Module,), {})()
        layer = type("MultiTokenPredictionLayer", (nn.Module,), {"layer_number": 1})()
        model.mtp.layers = nn.ModuleList([layer])
    return model


def test_a_stage_that_predicts_further_tokens_has_a_copy_of_the_embedding():
    model = last_stage(ahead=True)
    names = ModelNames.of(model, MegatronNaming(SimpleNamespace()))
    # The head's own weight is never read.
    assert names.parameters == {TIED: model.embedding.word_embeddings.weight}
    assert "mtp" not in names.modules and "mtp.layers.0" in names.modules
    calls = CallCounter(names.earlier_runs)
    found = {name: [calls.begin(name).call for _ in range(2)] for name in ("embedding", "decoder")}
    assert found == {"embedding": [1, 2], "decoder": [0, 1]}
    head = last_stage(ahead=False)
    names = ModelNames.of(head, MegatronNaming(SimpleNamespace()))
    assert names.parameters == {TIED: head.output_layer.weight} and not names.earlier_runs


def test_a_layer_that_predicts_takes_and_returns_tokens_beside_hidden_states():
    layer = type("MultiTokenPredictionLayer", (nn.Module,), {})()
    config = SimpleNamespace(sequence_parallel=True)
    found = module_layouts(SimpleNamespace(modules={"mtp.layers.0": layer}), config, SIZES, ())
    layout = found["mtp.layers.0"]
    ids, states = torch.zeros(2, 4, dtype=torch.int64), torch.zeros(4, 2, 8)
    for of in (layout.of_input, layout.of_output):
        assert of(0, ids) == {} and of(2, states) == {"tp": Shard(0)}
