"""transformers 5.23.0: Inkling2 loaded with tp_plan="auto", saved and loaded again.

Its plan says "colwise" for the fused `mlp.experts.gate_up_proj` and not "packed_colwise". Loading
gives rank r the rows [gate_r; up_r], rightly, but the DTensor says Shard(1). So whoever makes it
whole, `save_pretrained` too, gets

    [gate_0; up_0; gate_1; up_1]     instead of     [gate_0; gate_1; up_0; up_1]:

the saved model is another one. Fails once it is mended.
"""

from __future__ import annotations

import torch
import transformers
from common.two_ranks import RANKS, run_on_two
from torch import distributed
from transformers import AutoModelForCausalLM

NAME = "model.layers.0.mlp.experts.gate_up_proj"
SIZES = {
    "vocab_size": 64,
    "unpadded_vocab_size": 64,  # since 5.24.0
    "hidden_size": 32,
    "intermediate_size": 64,
    "moe_intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
}


def run(rank, folder):
    torch.manual_seed(0)
    config = transformers.CONFIG_MAPPING["inkling2_text"](**SIZES)
    whole = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    if rank == 0:
        whole.save_pretrained(f"{folder}/whole")
    distributed.barrier()
    cut = AutoModelForCausalLM.from_pretrained(
        f"{folder}/whole", tp_plan="auto", dtype=torch.float32
    )
    cut.save_pretrained(f"{folder}/again")
    distributed.barrier()
    again = AutoModelForCausalLM.from_pretrained(f"{folder}/again", dtype=torch.float32)
    right, saved = (dict(model.named_parameters())[NAME] for model in (whole, again))
    gate, up = (half.chunk(RANKS, 1) for half in right.chunk(2, 1))
    formula = torch.cat([gate[0], up[0], gate[1], up[1]], 1)
    assert not torch.equal(saved, right), "the saved weights are right: mended"
    assert torch.equal(saved, formula), "the formula does not explain it"
    if rank == 0:
        print(f"{NAME} is saved with rows of gate and up mixed")


if __name__ == "__main__":
    run_on_two(run)
