"""Models of transformers with DDP, FSDP2 and tp_plan="auto", with peft, accelerate and Trainer."""

from __future__ import annotations

LAUNCHER = "launch_transformers.py"
SIZES = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "pad_token_id": None,
}
EXPERTS = {**SIZES, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
ODD = {**SIZES, "vocab_size": 67, "intermediate_size": 66, "tie_word_embeddings": True}
BIASES = {**SIZES, "attention_bias": True, "mlp_bias": True}
GLM = {**EXPERTS, "n_routed_experts": 4, "head_dim": 8, "first_k_dense_replace": 1}
GLM |= {"n_group": 1, "topk_group": 1}


def row(name, case, kept=(), **more):
    """On two ranks against the same model alone."""
    alone = {key: value for key, value in case.items() if key not in ("kind", *kept)}
    reference = {"kind": "plain", **alone} if "script" not in case else alone
    named = {"row": name.replace(" ", "_"), "launcher": LAUNCHER, "world": 2}
    return {**named, "case": case, "reference": reference, **more}


def tp(kind, settings, **more):
    """One micro-batch a step: q_norm and k_norm cannot accumulate, found/ says why."""
    return {"kind": "tp", "config": [kind, settings], "micro_batches": 1, **more}


NOT_SUMMED = "g_r instead of the sum: found/transformers_grad_not_summed.py"
LORA = {"model": "llama", "lora": True}
ACCELERATE = {"script": "train_accelerate", "model": "llama"}
TRAINER = {"script": "train_trainer", "model": "llama"}
SFT = {"script": "train_sft", "model": "llama"}
WHOLE, OFFLOAD = {"reshard_after_forward": False}, {"cpu_offload": True}
ROWS = [
    row("llama tp odd tied", tp("LlamaConfig", ODD)),
    row("llama tp biases", tp("LlamaConfig", BIASES)),
    row("llama tp accumulating", {"kind": "tp", "model": "llama"}),
    row("qwen2 tp", tp("Qwen2Config", SIZES)),
    row("gemma3 tp", tp("Gemma3TextConfig", {**SIZES, "head_dim": 8})),
    row("olmo2 tp", tp("Olmo2Config", SIZES)),
    row("cohere tp", tp("CohereConfig", SIZES)),
    row("phi3 tp", tp("Phi3Config", SIZES)),
    row("gpt neox tp", tp("GPTNeoXConfig", {**SIZES, "hidden_act": "gelu"})),
    row("starcoder2 tp", tp("Starcoder2Config", SIZES)),
    row("smollm3 tp", tp("SmolLM3Config", SIZES)),
    row("mixtral tp", tp("MixtralConfig", {**EXPERTS, "num_local_experts": 4})),
    row("glm4 moe tp", tp("Glm4MoeConfig", GLM)),
    row(
        "glm4 moe tp norms",
        tp("Glm4MoeConfig", {**GLM, "use_qk_norm": True}),
        exit=1,
        first="q_norm.weight",
        cause=NOT_SUMMED,
    ),
    row(
        "apertus tp",
        tp("ApertusConfig", SIZES),
        exit=1,
        first="alpha",
        cause=NOT_SUMMED,
    ),
    row(
        "phi tp norms",
        tp("PhiConfig", {**SIZES, "qk_layernorm": True}),
        exit=1,
        first="layernorm",
        cause=NOT_SUMMED,
    ),
    row(
        "hrm text tp",
        tp("HrmTextConfig", {**SIZES, "head_dim": 8}),
        exit=1,
        first="param",
        cause="rows of other weights: found/transformers_fused_weights.py",
    ),
    row(
        "qwen3 tp accumulating",
        {"kind": "tp", "model": "qwen3"},
        exit=1,
        first="_norm.weight",
        cause="summed again after every backward: found/transformers_grad_all_reduce.py",
    ),
    row("qwen3 ddp", {"kind": "ddp", "model": "qwen3"}),
    row("qwen3 fsdp2", {"kind": "fsdp2", "model": "qwen3"}),
    row("qwen3 moe fsdp2", {"kind": "fsdp2", "model": "qwen3_moe"}),
    row("gpt2 ddp", {"kind": "ddp", "model": "gpt2"}),
    row("lora ddp", {"kind": "ddp", **LORA}),
    row("lora fsdp2", {"kind": "fsdp2", **LORA}),
    row("dora fsdp2", {"kind": "fsdp2", **LORA, "peft": {"use_dora": True}}),
    row(
        "lora saved modules fsdp2",
        {"kind": "fsdp2", **LORA, "peft": {"modules_to_save": ["lm_head"]}},
    ),
    row("dora ddp", {"kind": "ddp", **LORA, "peft": {"use_dora": True}}),
    row("rslora ddp", {"kind": "ddp", **LORA, "peft": {"use_rslora": True}}),
    row(
        "lora saved modules ddp", {"kind": "ddp", **LORA, "peft": {"modules_to_save": ["lm_head"]}}
    ),
    row("accelerate ddp", ACCELERATE),
    row("accelerate fsdp2", {**ACCELERATE, "fsdp2": True}, kept=("fsdp2",)),
    row("accelerate qwen3", {**ACCELERATE, "model": "qwen3"}),
    row("accelerate mixtral", {**ACCELERATE, "model": "mixtral"}),
    row("trainer ddp", TRAINER),
    row("trainer qwen3", {**TRAINER, "model": "qwen3"}),
    row("trainer bf16", {**TRAINER, "bf16": True}),
    row("trainer fsdp2", {**TRAINER, "fsdp2": {}}, kept=("fsdp2",)),
    row("trainer fsdp2 kept whole", {**TRAINER, "fsdp2": WHOLE}, kept=("fsdp2",)),
    row(
        "trainer fsdp2 offload",
        {**TRAINER, "fsdp2": OFFLOAD},
        kept=("fsdp2",),
        exit="fails",
        cause="accelerate pins the memory that it offloads to, for a device that a CPU lacks",
    ),
    row("sft ddp", SFT),
    row("sft checkpointed", {**SFT, "checkpoint": True}, kept=("checkpoint",)),
    row("sft qwen3", {**SFT, "model": "qwen3"}),
]
