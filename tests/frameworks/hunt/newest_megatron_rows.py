"""Latent attention, and optimizers of whole layers, with the newest release of Megatron-core."""

from __future__ import annotations

from hunt import megatron_rows
from megatron_cases import ALL_RECOMPUTED, CP2, PP2, SP, TP2, ZERO


def row(name, *arguments, optimizer=None, **more):
    made = megatron_rows.row(f"0.19.2 {name}", *arguments, newest=True, **more)
    if optimizer:
        made["case"]["optimizer"] = made["reference"]["optimizer"] = optimizer
    return made


LATENT = {
    "multi_latent_attention": True,
    "num_query_groups": 4,
    "q_lora_rank": 16,
    "kv_lora_rank": 12,
    "qk_head_dim": 8,
    "qk_pos_emb_head_dim": 4,
    "v_head_dim": 8,
    "rope_type": "rope",
}
MUON = {"optimizer": "muon", "muon_momentum": 0.9}
KEY = "the key's gradient is not summed: found/megatron_latent_key_gradient.py"
ROWS = [
    row(
        "latent tp2",
        "modern",
        TP2,
        config=LATENT,
        exit=1,
        first="self_attention.linear_kv_down_proj",
        cause=f"{KEY}; and R times the query norm's: found/megatron_latent_query_norm.py",
    ),
    row(
        "latent tp2 sp",
        "modern",
        TP2,
        config=LATENT,
        there=SP,
        exit=1,
        first="self_attention.linear_kv_down_proj",
        cause=KEY,
    ),
    row("latent pp2", "modern", PP2, config=LATENT),
    row("latent pp2 recomputed", "modern", PP2, config=LATENT, there=ALL_RECOMPUTED),
    row("latent dp2 zero", "modern", None, ZERO, config=LATENT),
    row("latent cp2", "modern", CP2, config=LATENT),
    row("muon dp2", "untied", optimizer=MUON),
]
