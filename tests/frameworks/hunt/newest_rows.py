"""torch, transformers, peft, trl, accelerate, Lightning and torchao: what is new in their newest
releases, or was not tried with older ones."""

from __future__ import annotations

from hunt import pipeline_rows, torch_rows, transformers_rows
from hunt.torch_rows import DDP, FSDP, HSDP, NO_STRATEGY, TP, optimizer
from hunt.transformers_rows import LORA, SFT


def torch_row(name, case, world=2, **more):
    return torch_rows.row(f"torch 2.15.0 {name}", case, world, newest=True, **more)


def again(rows, names):
    """Rows of older releases with the newest."""
    chosen = [row for row in rows if row["row"] in names]
    return [{**row, "row": f"torch_2.15.0_{row['row']}", "newest": True} for row in chosen]


def model_row(name, case, kept=(), **more):
    return transformers_rows.row(name, case, kept, newest=True, **more)


def lightning(name, case, **more):
    alone = {key: value for key, value in case.items() if key not in ("kind", "ddp")}
    return {
        "row": f"lightning_2.6.6_{name.replace(' ', '_')}",
        "launcher": "launch_lightning.py",
        "world": 2,
        "newest": True,
        "case": case,
        "reference": {**alone, "kind": "plain"},
        **more,
    }


def muon(**settings):
    return {**optimizer("Muon", **settings), "matrices": True}


def peft_rows(way, begins, **settings):
    """A way of peft with DDP and under FSDP2."""
    case = {**LORA, "way": [way, begins], "peft": settings}
    name = f"peft 0.21.2 {way.removesuffix('Config').lower()}"
    return [model_row(f"{name} {kind}", {"kind": kind, **case}) for kind in ("ddp", "fsdp2")]


VIRTUAL = {"task_type": "CAUSAL_LM", "num_virtual_tokens": 4, "target_modules": None}
PREFERENCES = {"script": "hunt.train_preferences", "model": "llama"}
AGAIN = ("adamw_fused", "sgd_fused", "ddp", "ddp_static_graph", "ddp_bucket_views", "ddp_no_sync")
AGAIN += ("ddp_no_sync_views", "ddp_kept_gradients", "ddp_find_unused", "ddp_small_buckets")
AGAIN += ("ddp_checkpointed", "ddp_zero_adamw", "ddp_four", "fsdp_kept_whole")
AGAIN += ("fsdp_columns", "fsdp_offload", "fsdp_no_sync", "fsdp_kept_after_backward")
AGAIN += ("fsdp_checkpointed", "fsdp_foreach", "hsdp_no_all-reduce", "hsdp_no_sync", "tp_loss")
AGAIN += ("tp_loss_sequence", "pipeline_gpipe", "pipeline_1f1b", "pipeline_interleaved")
AGAIN += ("pipeline_zero_bubble", "pipeline_zero_bubble_fsdp")
IN_PLACE = {
    "exit": "fails",
    "cause": "a norm of a DTensor is a sum over ranks to come, which cannot be raised in place",
}
UNREGISTERED = {"exit": "fails", "cause": NO_STRATEGY}
COMPILED = {
    "exit": 3,
    "cause": "nothing inside a compiled block is recorded; what is recorded agrees",
}
# Less than half of what the step computes, beyond which the answer is inconclusive; all gradients
# of parameters, the loss and the updates are among the checked ones.
FEWER = "nothing inside a compiled block is recorded, which the first line says"

ROUNDED = {
    "exit": 3,
    "cause": "Muon is not replayed: other orders of sums move weights as another rate would",
}

ROWS = [
    # Optimizers over DTensors.
    torch_row("ddp muon", {**DDP, **muon()}),
    torch_row("fsdp muon", {**FSDP, **muon()}, **ROUNDED),
    torch_row(
        "fsdp muon rms", {**FSDP, **muon(adjust_lr_fn="match_rms_adamw", nesterov=False)}, **ROUNDED
    ),
    torch_row(
        "fsdp muon no sync",
        {**FSDP, **muon(), "accumulate": "set_requires_gradient_sync"},
        **ROUNDED,
    ),
    torch_row("fsdp muon columns", {**FSDP, **muon(), "fsdp": {"columns": True}}, **ROUNDED),
    torch_row("hsdp muon", {**HSDP, **muon()}, 4, **ROUNDED),
    torch_row("tp muon", {**TP, **muon()}, **ROUNDED),
    torch_row("fsdp adafactor", {**FSDP, **optimizer("Adafactor", foreach=True)}, **IN_PLACE),
    torch_row("fsdp adafactor loop", {**FSDP, **optimizer("Adafactor", foreach=False)}, **IN_PLACE),
    torch_row("tp adafactor", {**TP, **optimizer("Adafactor", foreach=False)}, **IN_PLACE),
    torch_row("fsdp adagrad", {**FSDP, **optimizer("Adagrad", foreach=True)}),
    torch_row("fsdp adagrad fused", {**FSDP, **optimizer("Adagrad", fused=True)}, **UNREGISTERED),
    torch_row("fsdp adadelta", {**FSDP, **optimizer("Adadelta", foreach=True)}),
    torch_row("fsdp rmsprop", {**FSDP, **optimizer("RMSprop", foreach=True, centered=True)}),
    torch_row("fsdp nadam", {**FSDP, **optimizer("NAdam", foreach=True)}),
    torch_row("fsdp radam", {**FSDP, **optimizer("RAdam", foreach=True)}),
    torch_row("fsdp adamax", {**FSDP, **optimizer("Adamax", foreach=True)}),
    torch_row("fsdp asgd", {**FSDP, **optimizer("ASGD", foreach=True)}),
    torch_row("fsdp rprop", {**FSDP, **optimizer("Rprop", foreach=True)}, **UNREGISTERED),
    torch_row("fsdp adam fused maximize", {**FSDP, **optimizer("Adam", fused=True, maximize=True)}),
    torch_row("fsdp sgd fused", {**FSDP, **optimizer("SGD", fused=True)}, **UNREGISTERED),
    torch_row("sgd fused bf16", {**optimizer("SGD", fused=True), "half": True}, 1),
    torch_row("fsdp half", {**FSDP, "half": True}),
    torch_row("ddp half", {**DDP, "half": True}),
    torch_row("fsdp scaled", {**FSDP, "scaled": True}),
    torch_row(
        "context parallel",
        {"wrap": "cp"},
        exit="fails",
        cause="torch has ring attention for kernels of CUDA alone, and says so",
    ),
    torch_row(
        "tp loss smoothed",
        {**TP, "loss": {"label_smoothing": 0.1}},
        exit="fails",
        cause="loss_parallel has no label smoothing, and says so",
    ),
    torch_row("tp loss summed", {**TP, "loss": {"reduction": "sum"}}),
    torch_row("fsdp clip 0.5", {**FSDP, "clip": [0.1, 0.5, True]}),
    torch_row("hsdp clip 1", {**HSDP, "clip": [0.1, 1, True]}, 4),
    torch_row("hsdp offload", {**HSDP, "fsdp": {"offload": True}}, 4),
    torch_row("ddp compiled", {**DDP, "compiled": True}, cause=FEWER),
    torch_row("fsdp compiled", {**FSDP, "compiled": True}, **COMPILED),
    *again([*torch_rows.ROWS, *pipeline_rows.ROWS], AGAIN),
    # torchao.
    torch_row(
        "torchao 0.18.0 float8 gathered fsdp",
        {**FSDP, "float8": {"enable_fsdp_float8_all_gather": True}},
    ),
    # peft.
    *peft_rows("VeraConfig", "init_weights"),
    *peft_rows("IA3Config", "init_ia3_weights", feedforward_modules=[]),
    *peft_rows("OFTConfig", "init_weights", oft_block_size=4),
    *peft_rows("BOFTConfig", "init_weights", boft_block_size=4),
    *peft_rows("LoHaConfig", "init_weights"),
    *peft_rows("LoKrConfig", "init_weights"),
    *peft_rows("RandLoraConfig", "init_weights", r=4),
    *peft_rows("MissConfig", "init_weights", r=4),
    *peft_rows("DeloraConfig", "init_weights"),
    *peft_rows("RoadConfig", "init_weights", group_size=4),
    *peft_rows(
        "LNTuningConfig", None, target_modules=["input_layernorm", "post_attention_layernorm"]
    ),
    *peft_rows("PromptTuningConfig", None, **VIRTUAL),
    *peft_rows("PrefixTuningConfig", None, **VIRTUAL),
    *peft_rows("PromptEncoderConfig", None, **VIRTUAL, encoder_hidden_size=16),
    *[
        {**row, "row": f"{row['row']}_lstm"}
        for row in peft_rows(
            "PromptEncoderConfig",
            None,
            **VIRTUAL,
            encoder_hidden_size=16,
            encoder_reparameterization_type="LSTM",
        )
    ],
    # trl.
    model_row("trl 1.16.0 dpo", {**PREFERENCES, "trainer": "DPO"}),
    model_row("trl 1.16.0 reward", {**PREFERENCES, "trainer": "Reward"}),
    model_row(
        "trl 1.16.0 kto",
        {**PREFERENCES, "trainer": "KTO"},
        exit=1,
        first="loss",
        cause="by definition: its KL is the mean over the ranks, and alone over a micro-batch",
    ),
    # Without that mean it matches.
    model_row(
        "trl 1.16.0 kto apo",
        {**PREFERENCES, "trainer": "KTO", "settings": {"loss_type": "apo_zero_unpaired"}},
    ),
    *(
        model_row(
            f"trl 1.16.0 dpo {kind}",
            {**PREFERENCES, "trainer": "DPO", "settings": {"loss_type": [kind]}},
        )
        for kind in ("ipo", "sppo_hard", "aot")
    ),
    model_row("trl 1.16.0 dpo qwen3", {**PREFERENCES, "trainer": "DPO", "model": "qwen3"}),
    model_row("trl 1.16.0 sft gpt2", {**SFT, "model": "gpt2"}),
    # Lightning.
    lightning("ddp", {"kind": "ddp"}),
    lightning(
        "ddp static graph",
        {"kind": "ddp", "ddp": {"static_graph": True}},
        exit="fails",
        cause="a first backward under no_sync() ends torch's static graph, without a tracer too",
    ),
    lightning("ddp find unused", {"kind": "ddp", "ddp": {"find_unused_parameters": True}}),
    lightning("ddp bucket views", {"kind": "ddp", "ddp": {"gradient_as_bucket_view": True}}),
    lightning("ddp clipped", {"kind": "ddp", "clip": 0.1}),
    lightning(
        "ddp clipped by value",
        {"kind": "ddp", "clip": 0.001, "trainer": {"gradient_clip_algorithm": "value"}},
    ),
    lightning("ddp bf16", {"kind": "ddp", "trainer": {"precision": "bf16-mixed"}}),
    lightning("ddp bf16 true", {"kind": "ddp", "trainer": {"precision": "bf16-true"}}),
    lightning("ddp fp64", {"kind": "ddp", "trainer": {"precision": "64-true"}}),
    lightning(
        "fsdp1", {"kind": "fsdp1"}, exit="fails", cause="Lightning asks for a GPU, and says so"
    ),
    lightning("fsdp2", {"kind": "fsdp2"}),
    lightning("fsdp2 clipped", {"kind": "fsdp2", "clip": 0.1}),
    lightning("fsdp2 bf16", {"kind": "fsdp2", "trainer": {"precision": "bf16-mixed"}}),
]
