"""The layouts and models in which Megatron-core is traced, as data: see `launch_megatron.py`.

A case's name begins with its model's, of which there is a reference on one process.
"""

from __future__ import annotations

TP2 = {"tensor_model_parallel_size": 2}
TP4 = {"tensor_model_parallel_size": 4}
PP2 = {"pipeline_model_parallel_size": 2}
PP4 = {"pipeline_model_parallel_size": 4}
CP2 = {"context_parallel_size": 2}
EP2 = {"expert_model_parallel_size": 2}
ETP1 = {"expert_tensor_parallel_size": 1}
VPP2 = {"virtual_pipeline_model_parallel_size": 2}
SP = {"sequence_parallel": True}
# With the default, virtual stages on two ranks take each other's messages and compute nonsense.
VPP2_ON_PP2 = {**VPP2, "batch_p2p_comm": False}
ALLGATHER = {"moe_token_dispatcher_type": "allgather"}
# Gradients and the optimizer's state cut over the data-parallel ranks.
ZERO = {"use_distributed_optimizer": True}
OVERLAP = {"overlap_grad_reduce": True}
ALL_RECOMPUTED = {
    "recompute_granularity": "full",
    "recompute_method": "uniform",
    "recompute_num_layers": 1,
}
ATTENTION_RECOMPUTED = {"recompute_granularity": "selective"}

_EXPERTS = {
    "num_moe_experts": 4,
    "moe_router_topk": 2,
    "moe_token_dispatcher_type": "alltoall",
    "moe_aux_loss_coeff": 0.0,
    "add_bias_linear": False,
}
# Rotary positions, gated layers, grouped queries, norms of queries and keys, a head of its own.
_MODERN = {
    "gated_linear_unit": True,
    "add_bias_linear": False,
    "num_query_groups": 2,
    "qk_layernorm": True,
    "normalization": "RMSNorm",
}
# Model -> its part of TransformerConfig, and what `train_gpt.py` reads beside it.
MODELS = {
    "plain": ({}, {}),
    "half": ({"bf16": True}, {}),
    "untied": ({}, {"tied": False}),
    "deep": ({"num_layers": 8}, {}),
    "tokens": ({"calculate_per_token_loss": True}, {}),
    "modern": (_MODERN, {"tied": False, "positions": "rope"}),
    "experts": (_EXPERTS, {}),
    "shared": ({**_EXPERTS, "moe_shared_expert_intermediate_size": 64}, {}),
    # In bf16 some of its tokens go to other experts in every other layout, by rounding alone.
    "flipping": ({**_EXPERTS, "num_moe_experts": 8, "bf16": True}, {}),
    "balanced": ({**_EXPERTS, "moe_aux_loss_coeff": 0.1}, {}),
}


def case(model, parallel=None, reduction=None, **config):
    """A case of `train_gpt.py`.

    parallel: for Megatron's groups. reduction: for its DistributedDataParallel. config: more of
        TransformerConfig.
    """
    base, beside = MODELS[model]
    virtual = config.get("virtual_pipeline_model_parallel_size")
    stages = {"virtual_pipeline_model_parallel_size": virtual} if virtual else {}
    return {
        "parallel": {**(parallel or {}), **stages},
        "reduction": reduction or {},
        "config": {**base, **config},
        **beside,
    }


def references(models, seeds):
    """The one-process run of each model, and perturbed ones."""
    found = {}
    for model in models:
        found[model] = case(model)
        for seed in seeds:
            found[noise_of(model, seed)] = {**case(model), "noise": seed}
    return found


def noise_of(model, seed):
    return f"{model}_noise{seed}"


# Number of processes -> name -> case.
QUICK = {
    2: {
        "plain_tp2_sp": case("plain", TP2, **SP),
        "plain_dp2_zero": case("plain", None, ZERO),
        "plain_pp2_vpp2": case("plain", PP2, **VPP2_ON_PP2),
        "half_tp2_sp": case("half", TP2, **SP),
        "experts_ep2": case("experts", EP2),
    },
}
# What is trained with older versions.
LONG_OLDER = {
    2: {
        "plain_tp2": case("plain", TP2),
        "plain_dp2": case("plain"),
        "plain_dp2_zero": case("plain", None, ZERO),
        "plain_pp2_vpp2": case("plain", PP2, **VPP2_ON_PP2),
        "plain_cp2": case("plain", CP2),
        "modern_tp2_sp": case("modern", TP2, **SP),
        "experts_ep2": case("experts", EP2),
    },
    4: {
        "half_tp2_pp2_sp": case("half", {**TP2, **PP2}, **SP),
    },
}
LONG = {
    2: {
        "plain_tp2": case("plain", TP2),
        "plain_dp2": case("plain"),
        "plain_pp2": case("plain", PP2),
        "plain_cp2": case("plain", CP2),
        "modern_tp2_sp": case("modern", TP2, **SP),
        "modern_pp2": case("modern", PP2),
        "plain_tp2_recomputed": case("plain", TP2, **ALL_RECOMPUTED),
        "plain_tp2_sp_attention_recomputed": case("plain", TP2, **SP, **ATTENTION_RECOMPUTED),
        "plain_pp2_recomputed": case("plain", PP2, **ALL_RECOMPUTED),
        "plain_dp2_averaged": case("plain", None, {"average_in_collective": True}),
        "plain_dp2_overlap": case("plain", None, OVERLAP),
        "plain_dp2_zero_overlap": case("plain", None, {**ZERO, **OVERLAP}),
        "half_dp2_zero": case("half", None, ZERO),
        "half_pp2": case("half", PP2),
        "untied_pp2": case("untied", PP2),
        "untied_tp2": case("untied", TP2),
        "deep_pp2_vpp2": case("deep", PP2, **VPP2_ON_PP2),
        "tokens_tp2": case("tokens", TP2),
        "tokens_dp2": case("tokens"),
        "tokens_cp2": case("tokens", CP2),
        "modern_tp2": case("modern", TP2),
        "modern_cp2": case("modern", CP2),
        "modern_dp2_zero": case("modern", None, ZERO),
        "modern_pp2_vpp2": case("modern", PP2, **VPP2_ON_PP2),
        "modern_pp2_recomputed": case("modern", PP2, **ALL_RECOMPUTED),
        "experts_dp2": case("experts"),
        "experts_ep2_zero": case("experts", EP2, ZERO),
        "experts_ep2_allgather": case("experts", EP2, **ALLGATHER),
        "experts_tp2_sp": case("experts", TP2, **SP),
        "experts_pp2": case("experts", PP2),
        "shared_ep2": case("shared", EP2),
        "shared_tp2_sp": case("shared", TP2, **SP),
        "balanced_ep2": case("balanced", EP2),
    },
    4: {
        "plain_tp2_dp2_zero": case("plain", TP2, ZERO),
        "plain_tp4": case("plain", TP4),
        "plain_pp4": case("plain", PP4),
        "plain_pp2_dp2": case("plain", PP2),
        "plain_tp2_cp2_sp": case("plain", {**TP2, **CP2}, **SP),
        "plain_dp2_cp2_zero": case("plain", CP2, ZERO),
        "plain_pp2_vpp2_dp2_zero": case("plain", PP2, ZERO, **VPP2_ON_PP2),
        "half_tp2_pp2_sp": case("half", {**TP2, **PP2}, **SP),
        "half_tp2_dp2_zero_sp": case("half", TP2, ZERO, **SP),
        "deep_pp4_vpp2": case("deep", PP4, **VPP2),
        "modern_tp2_pp2_sp": case("modern", {**TP2, **PP2}, **SP),
        "experts_ep2_edp2_zero": case("experts", EP2, ZERO),
        "experts_tp2_ep2_sp": case("experts", {**TP2, **EP2, **ETP1}, **SP, **ALLGATHER),
        "experts_ep2_pp2": case("experts", {**EP2, **PP2}),
        "shared_tp2_ep2_sp": case("shared", {**TP2, **EP2, **ETP1}, **SP, **ALLGATHER),
    },
}
FAULTS = {
    2: {
        "plain_norms_not_summed": {**case("plain", TP2, **SP), "fault": "norms_not_summed"},
        "plain_virtual_stages_mixed_up": case("plain", PP2, **VPP2),
        "plain_divided_twice": {**case("plain"), "divided_by": 2},
        "plain_copies_not_summed": {**case("plain", PP2), "fault": "copies_not_summed"},
    },
}
LONG_FAULTS = {
    4: {
        "experts_not_reduced": {**case("experts", EP2), "fault": "experts_not_reduced"},
    },
}
ROUTED = {
    2: {
        "flipping_tp2_sp": case("flipping", TP2, **SP),
        "flipping_ep2": case("flipping", EP2),
        "flipping_permuted": {**case("flipping", TP2, **SP), "fault": "experts_permuted"},
        "flipping_one_less": {**case("flipping", EP2), "fault": "one_expert_less"},
    },
}
# On one process, with a specification.
SPECIFIED = {"modern": case("modern"), "half": case("half")}
REFUSED = {
    1: {
        "dropout": case("plain", hidden_dropout=0.1),
        "overlapped": case("plain", None, {**ZERO, **OVERLAP, "overlap_param_gather": True}),
        "mesh_given": {**case("plain"), "fault": "mesh_given"},
        "fused": {**case("plain"), "fault": "fused"},
    },
    2: {
        "unwrapped": {**case("plain"), "fault": "unwrapped"},
        "instances": case(
            "plain",
            {"num_distributed_optimizer_instances": 2},
            {**ZERO, "num_distributed_optimizer_instances": 2},
        ),
    },
}
NEWEST, OLDER = "0.16.1", ("0.15.3", "0.14.0", "0.13.1")
