"""transformers 5.23.0: HRM-Text loaded with tp_plan="auto" from its own checkpoint format.

The checkpoint holds gate and up, and gate, q, k and v, fused in one matrix S, which a
`WeightConverter` chunks. Each rank cuts S first and chunks what it has: for the i-th of n weights
rank r of R gets

    chunk(chunk(S, R)[r], n)[i]     instead of     chunk(chunk(S, n)[i], R)[r],

rows of other weights, of the right shape. Loss and gradients are wrong from the first step on.
Fails once it is mended.
"""

from __future__ import annotations

import torch
from common.two_ranks import RANKS, run_on_two
from torch import distributed
from transformers import AutoModelForCausalLM, HrmTextConfig

CONFIG = HrmTextConfig(
    vocab_size=64,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=1,
    num_attention_heads=4,
    head_dim=8,
)
FUSED = ("gate_proj", "up_proj")
WHERE = "model.L_module.layers.0.mlp.{}.weight"


def run(rank, folder):
    torch.manual_seed(0)
    whole = AutoModelForCausalLM.from_config(CONFIG, dtype=torch.float32)
    if rank == 0:
        whole.save_pretrained(folder)
    distributed.barrier()
    loaded = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    cut = AutoModelForCausalLM.from_pretrained(folder, tp_plan="auto", dtype=torch.float32)
    right, alone, own = (dict(model.named_parameters()) for model in (whole, loaded, cut))
    fused = torch.cat([right[WHERE.format(name)] for name in FUSED])
    wrong = 0
    for number, name in enumerate(FUSED):
        held = own[WHERE.format(name)].to_local()
        assert torch.equal(alone[WHERE.format(name)], right[WHERE.format(name)])
        wrong += not torch.equal(held, right[WHERE.format(name)].chunk(RANKS)[rank])
        formula = fused.chunk(RANKS)[rank].chunk(len(FUSED))[number]
        assert torch.equal(held, formula), "the formula does not explain it"
    print(f"rank {rank}: {wrong} of {len(FUSED)} weights hold rows of another one")
    assert wrong > 0, "the weights are right: mended"


if __name__ == "__main__":
    run_on_two(run)
