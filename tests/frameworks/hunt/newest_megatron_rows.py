"""Options that Megatron-core has since 0.17, trained with the newest release."""

from __future__ import annotations

from hunt import megatron_rows
from megatron_cases import (
    ALL_RECOMPUTED,
    CP2,
    OVERLAP,
    PP2,
    SP,
    TP2,
    VPP2,
    VPP2_ON_PP2,
    ZERO,
)


def row(name, *arguments, **more):
    optimizer = more.pop("optimizer", None)
    made = megatron_rows.row(f"0.19.2 {name}", *arguments, newest=True, **more)
    if optimizer:
        made["case"]["optimizer"] = optimizer
        alone = {k: v for k, v in optimizer.items() if k not in ONLY_THERE}
        made["reference"]["optimizer"] = alone
    return made


# How the optimizer's work is shared out: the reference runs without.
ONLY_THERE = ("use_layer_wise_distributed_optimizer", "muon_tp_mode")
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
AHEAD, GATE, HALF = {"mtp_num_layers": 1}, {"attention_output_gate": True}, {"bf16": True}
MUON = {"optimizer": "muon", "muon_momentum": 0.9}
LAYER_WISE = {"use_layer_wise_distributed_optimizer": True}
POSITIONS = "embedding.position_embeddings.weight"
NOT_SUMMED = (
    "Megatron documents learned positions as not supported there, and does not refuse them: "
    "the last stage's copy gets its own gradient"
)
KEY = "the key's gradient is not summed: found/megatron_latent_key_gradient.py"

ROWS = [
    # What older rows train, with the newest release.
    row("tp2 sp", "plain", TP2, there=SP),
    row("dp2 zero overlap", "plain", None, {**ZERO, **OVERLAP}),
    # The reduction of gradients.
    row("averaged zero dp2", "plain", None, {**ZERO, "average_in_collective": True}),
    row("small buckets zero dp2", "plain", None, {**ZERO, **OVERLAP, "bucket_size": 500}),
    row(
        "padded buckets zero dp2", "plain", None, {**ZERO, "pad_buckets_for_high_nccl_busbw": True}
    ),
    # Stages.
    row("first stage 1 pp2", "plain", PP2, there={"num_layers_in_first_pipeline_stage": 1}),
    row("layout pp2", "plain", PP2, there={"pipeline_model_parallel_layout": "Et|t*3L"}),
    row(
        "virtual stages groups pp2",
        "plain",
        PP2,
        there={**VPP2_ON_PP2, "microbatch_group_size_per_vp_stage": 4},
    ),
    row(
        "virtual stages pp2",
        "plain",
        PP2,
        there=VPP2,
        exit=1,
        cause="with batch_p2p_comm on two ranks messages change places: docs/megatron.md",
    ),
    # Latent attention.
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
    # Prediction of further tokens.
    row("ahead dp2 zero", "plain", None, ZERO, config=AHEAD),
    row("ahead tp2", "plain", TP2, config=AHEAD),
    row("ahead tp2 sp", "plain", TP2, config=AHEAD, there=SP),
    row("ahead pp2", "plain", PP2, config=AHEAD, exit=1, first=POSITIONS, cause=NOT_SUMMED),
    row("ahead rope tp2 sp", "modern", TP2, config=AHEAD, there=SP),
    row("ahead rope pp2", "modern", PP2, config=AHEAD),
    row("ahead rope virtual stages pp2", "modern", PP2, config=AHEAD, there=VPP2_ON_PP2),
    row(
        "ahead rope cp2",
        "modern",
        CP2,
        config=AHEAD,
        exit=1,
        first="output_layer",
        cause="Megatron documents context parallelism as not supported there, and does not refuse "
        "it: each rank divides that loss by its own number of tokens: 6 and 8 instead of 7",
    ),
    # Attention with a gate.
    row("gate tp2", "modern", TP2, config=GATE),
    row("gate tp2 sp", "modern", TP2, config=GATE, there=SP),
    row("gate pp2", "modern", PP2, config=GATE),
    row("gate dp2 zero", "modern", None, ZERO, config=GATE),
    # Optimizers that take whole layers.
    row("muon dp2", "untied", optimizer=MUON),
    # The default.
    row(
        "muon blockwise tp2 sp",
        "untied",
        TP2,
        there=SP,
        optimizer=MUON,
        exit=1,
        cause="by definition: each rank makes its own block of a weight orthogonal",
    ),
    row(
        "muon duplicated tp2 sp",
        "untied",
        TP2,
        there=SP,
        optimizer={**MUON, "muon_tp_mode": "duplicated"},
    ),
    row(
        "muon distributed tp2 sp",
        "untied",
        TP2,
        there=SP,
        optimizer={**MUON, "muon_tp_mode": "distributed"},
        exit=3,
        cause="bf16 products are summed over the ranks: 9 updates are off by 1 to 2 %, not judged",
    ),
    row(
        "muon layer wise fp32 dp2",
        "untied",
        optimizer={**MUON, **LAYER_WISE},
        exit="fails",
        cause="it wraps optimizers for bf16 alone, and calls prepare_grads() of those of torch",
    ),
    row("muon layer wise dp2", "untied", config=HALF, optimizer={**MUON, **LAYER_WISE}),
    row(
        "muon layer wise dp2 overlap",
        "untied",
        None,
        OVERLAP,
        config=HALF,
        optimizer={**MUON, **LAYER_WISE},
    ),
    row("muon layer wise pp2", "untied", PP2, config=HALF, optimizer={**MUON, **LAYER_WISE}),
]
