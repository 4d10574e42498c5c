"""transformers 5.23.0: q_norm and k_norm gradients under tp_plan="auto" with gradient accumulation.

`ReplicatedWithGradAllReduce` (distributed/tensor_parallel.py) all-reduces `param.grad` after every
backward. With accumulation `param.grad` holds earlier micro-batches, which are summed over the
ranks again: on R ranks the n micro-batches' gradients g_0 ... g_(n-1) give

    R^(n-1) g_0 + R^(n-2) g_1 + ... + g_(n-1)     instead of     g_0 + g_1 + ... + g_(n-1).

Run it alone; it prints the gradient's error and that of the formula, and fails if they are equal to
what one process computes, that is, once it is mended.
"""

from __future__ import annotations

import torch
from common.two_ranks import RANKS, run_on_two
from torch import distributed
from transformers import AutoModelForCausalLM, Qwen3Config

MICRO_BATCHES = 4
CONFIG = Qwen3Config(
    vocab_size=64,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=1,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    tie_word_embeddings=False,
)
NAME = "model.layers.0.self_attn.q_norm.weight"


def gradients(model, zero_each):
    """The gradient of q_norm after the micro-batches, or after each of them alone."""
    parameter = dict(model.named_parameters())[NAME]
    found = []
    for number in range(MICRO_BATCHES):
        ids = torch.randint(64, (2, 8), generator=torch.Generator().manual_seed(number))
        model(input_ids=ids, labels=ids).loss.backward()
        found.append(parameter.grad.clone())
        if zero_each:
            model.zero_grad()
    return found if zero_each else found[-1]


def run(rank, folder):
    torch.manual_seed(0)
    if rank == 0:
        AutoModelForCausalLM.from_config(CONFIG).save_pretrained(folder)
    distributed.barrier()
    accumulated = gradients(AutoModelForCausalLM.from_pretrained(folder, tp_plan="auto"), False)
    if rank == 0:
        each = gradients(AutoModelForCausalLM.from_pretrained(folder), True)
        right = torch.stack(each).sum(0)
        formula = sum(RANKS ** (MICRO_BATCHES - 1 - k) * g for k, g in enumerate(each))
        error = ((accumulated - right).norm() / right.norm()).item()
        left = ((accumulated - formula).norm() / formula.norm()).item()
        print(f"error {error:.3g} of the gradient, {left:.1e} from the formula")
        assert error > 0.1, "the gradient is right: mended"
        assert left < 1e-4, "the formula does not explain it"


if __name__ == "__main__":
    run_on_two(run)
