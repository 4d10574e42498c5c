"""Faults planted into trainings with Megatron-core: each is found, at the right place."""

from __future__ import annotations

import agreement
import pytest
from megatron_cases import NEWEST
from megatron_runs import FAULTS

# Name -> where it diverges first, and what is said of it.
FOUND = {
    "plain_norms_not_summed": (
        "decoder.layers.0.input_layernorm.weight · main_grad · step 0",
        "missing_reduction over tp: the sum of the copies is the reference",
    ),
    "plain_copies_not_summed": (
        "embedding.word_embeddings.weight · main_grad · step 0",
        "missing_reduction over pp: the sum of the copies is the reference",
    ),
    "plain_divided_twice": (
        "loss · grad_output · step 0 · mb 0",
        # That dp has two ranks alone names no axis.
        "scaled: 0.5 = 1/2 times the reference (what is left: 0 of the allowed)",
    ),
    "experts_not_reduced": (
        "decoder.layers.0.mlp.experts.local_experts.0.linear_fc1.weight · main_grad · step 0",
        "missing_reduction over edp: the sum of the copies is the reference",
    ),
    # No planted one: with its default batch_p2p_comm, the released package mixes up what two
    # virtual stages on each of two ranks send to each other, and says nothing. The first stage
    # is right, and what the second one is sent is not what the first one returned.
    "plain_virtual_stages_mixed_up": (
        "decoder.layers.1[hidden_states] · input · step 0 · mb 2",
        "before   output of decoder.layers.0 matches",
    ),
}


@pytest.mark.parametrize("name", [name for group in FAULTS.values() for name in group])
def test_fault_is_found_where_it_is(name, megatron):
    first, cause = FOUND[name]
    trace, reference = megatron.trace(NEWEST, name), megatron.reference(NEWEST, name)
    report = agreement.divergence(trace, reference, megatron.noise(NEWEST, name), first)
    # What is told of the first finding, up to the next one.
    assert cause in report.split("\n  2  ")[0]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("dropout", "hidden_dropout is 0.1: every layout draws masks of its own"),
        ("overlapped", "overlap_param_gather leaves parameters stale"),
        ("mesh_given", "mesh=...: Megatron's process groups tell the mesh"),
        ("fused", "gradient_accumulation_fusion adds weight gradients up where no hook sees"),
        ("unwrapped", "GPTModel on 2 data- or context-parallel ranks is not wrapped"),
        ("instances", "num_distributed_optimizer_instances"),
    ],
)
def test_what_cannot_be_compared_is_refused(name, why, megatron):
    said = (megatron.train(NEWEST) / f"{name}.txt").read_text(encoding="utf-8")
    assert said.startswith(why)
