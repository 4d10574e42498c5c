"""Options of torch: optimizers, data parallelism, FSDP2, tensor parallelism, the loop."""

from __future__ import annotations

SCRIPT, LAUNCHER = "hunt.train_options", "launch_transformers.py"
DDP, FSDP, TP = {"wrap": "ddp"}, {"wrap": "fsdp", "axes": {"dp": 2}}, {"wrap": "tp"}
HSDP = {"wrap": "fsdp", "axes": {"replicas": 2, "shards": 2}}
# These change how the loop runs, not what it computes. The reference runs without them.
ONLY_THERE = ("wrap", "axes", "ddp", "fsdp", "hook", "zero", "averaged", "accumulate", "sequence")
ONLY_THERE += ("compiled", "checkpoint", "kept_gradients", "scaled")
IMPLEMENTATIONS = ("fused", "foreach", "differentiable", "capturable")


def row(name, case, world=2, **more):
    """The reference is the same case, alone, with the plain loop over the parameters."""
    reference = {key: value for key, value in case.items() if key not in ONLY_THERE}
    optimizer, settings = case.get("optimizer", ["AdamW", {}])
    settings = {k: v for k, v in settings.items() if k not in IMPLEMENTATIONS}
    reference["optimizer"] = [optimizer, settings]
    if optimizer not in ("Muon", "LBFGS"):
        settings["foreach"] = False
    if "clip" in case:
        reference["clip"] = [*case["clip"][:2], False]
    return {
        "row": name.replace(" ", "_"),
        "launcher": LAUNCHER,
        "world": world,
        "case": {"script": SCRIPT, **case},
        "reference": {"script": SCRIPT, **reference},
        **more,
    }


def optimizer(name, **settings):
    return {"optimizer": [name, settings]}


FUSED_HALF = "elements in whole SIMD vectors stay p: found/torch_fused_sgd.py"
NO_STRATEGY = "torch has no sharding strategy for this kernel and says so"
ROWS = [
    # One process: implementations of an optimizer against its plain loop.
    row("adamw fused", optimizer("AdamW", fused=True, amsgrad=True), 1),
    row("adamw fused maximize", optimizer("AdamW", fused=True, maximize=True), 1),
    row("adamw foreach", optimizer("AdamW", foreach=True, amsgrad=True), 1),
    row("adam fused decay", optimizer("Adam", fused=True, weight_decay=0.1), 1),
    row("adagrad fused", optimizer("Adagrad", fused=True, lr_decay=0.1), 1),
    row("sgd fused", optimizer("SGD", fused=True, momentum=0.9, nesterov=True), 1),
    row("sgd foreach", optimizer("SGD", foreach=True, momentum=0.9, dampening=0.1), 1),
    row("nadam foreach", optimizer("NAdam", foreach=True, decoupled_weight_decay=True), 1),
    row("radam foreach", optimizer("RAdam", foreach=True, weight_decay=0.1), 1),
    row("adamax foreach", optimizer("Adamax", foreach=True), 1),
    row("rmsprop foreach", optimizer("RMSprop", foreach=True, centered=True, momentum=0.9), 1),
    row("adadelta foreach", optimizer("Adadelta", foreach=True), 1),
    row("asgd foreach", optimizer("ASGD", foreach=True), 1),
    row("rprop foreach", optimizer("Rprop", foreach=True), 1),
    row("adafactor foreach", optimizer("Adafactor", foreach=True), 1),
    row("muon", {**optimizer("Muon"), "matrices": True}, 1),
    row("adamw fused bf16", {**optimizer("AdamW", fused=True), "half": True}, 1),
    row("adamw foreach bf16", {**optimizer("AdamW", foreach=True), "half": True}, 1),
    row(
        "sgd fused bf16",
        {**optimizer("SGD", fused=True), "half": True},
        1,
        exit=1,
        first="param_after_step",
        cause=FUSED_HALF,
    ),
    row("compiled blocks", {"compiled": True}, 1),
    row("scaled", {"scaled": True}, 1),
    row("checkpointed", {"checkpoint": True}, 1),
    # Data parallelism.
    row("ddp", DDP),
    row("ddp static graph", {**DDP, "ddp": {"static_graph": True}}),
    row("ddp bucket views", {**DDP, "ddp": {"gradient_as_bucket_view": True}}),
    row("ddp kept gradients", {**DDP, "kept_gradients": True}),
    row("ddp find unused", {**DDP, "ddp": {"find_unused_parameters": True}}),
    row("ddp no sync", {**DDP, "accumulate": "no_sync"}),
    row(
        "ddp no sync views",
        {**DDP, "accumulate": "no_sync", "ddp": {"gradient_as_bucket_view": True}},
    ),
    row("ddp small buckets", {**DDP, "ddp": {"bucket_cap_mb": 1e-4}}),
    row("ddp frozen", {**DDP, "frozen": "embedding"}),
    row("ddp tied", {**DDP, "tied": True}),
    row("ddp checkpointed", {**DDP, "checkpoint": True, "ddp": {"static_graph": True}}),
    row("ddp compiled", {**DDP, "compiled": True}),
    row("ddp autocast", {**DDP, "autocast": True}),
    row("ddp scaled", {**DDP, "scaled": True, "ddp": {"gradient_as_bucket_view": True}}),
    # Each rank has the state of some parameters: it is not recorded.
    row("ddp zero adamw", {**DDP, "zero": True}),
    row("ddp zero fused", {**DDP, "zero": True, **optimizer("AdamW", fused=True)}),
    row("ddp post local sgd", {**DDP, "averaged": True, **optimizer("SGD", momentum=0.9)}),
    row("ddp clip inf", {**DDP, "clip": [0.01, "inf", True]}),
    row("ddp clip 1", {**DDP, "clip": [0.1, 1, True]}),
    row("ddp four", {**DDP, "ddp": {"static_graph": True}}, 4),
    # FSDP2 and hybrid sharding.
    row("fsdp", FSDP),
    row("fsdp tied", {**FSDP, "tied": True}),
    row("fsdp frozen", {**FSDP, "frozen": "attention"}),
    row("fsdp kept whole", {**FSDP, "fsdp": {"reshard_after_forward": False}}),
    row("fsdp columns", {**FSDP, "fsdp": {"columns": True}}),
    row("fsdp offload", {**FSDP, "fsdp": {"offload": True}}),
    row("fsdp offload clip 1", {**FSDP, "fsdp": {"offload": True}, "clip": [0.1, 1, True]}),
    row("fsdp offload clip inf", {**FSDP, "fsdp": {"offload": True}, "clip": [0.01, "inf", True]}),
    row(
        "fsdp offload fused",
        {**FSDP, "fsdp": {"offload": True}, **optimizer("AdamW", fused=True)},
    ),
    row("fsdp no sync", {**FSDP, "accumulate": "set_requires_gradient_sync"}),
    row("fsdp kept after backward", {**FSDP, "accumulate": "set_reshard_after_backward"}),
    row("fsdp checkpointed", {**FSDP, "checkpoint": True}),
    # Raw gradients inside the compiled blocks are not recorded.
    row("fsdp compiled", {**FSDP, "compiled": True}),
    row(
        "fsdp reduce bf16",
        {**FSDP, "fsdp": {"precision": ["reduce_dtype"]}},
        exit=1,
        first="main_grad",
        cause="the sums over ranks are rounded to bf16, as asked for; the reference is all fp32",
    ),
    row("fsdp fused", {**FSDP, **optimizer("AdamW", fused=True, amsgrad=True)}),
    row("fsdp foreach", {**FSDP, **optimizer("AdamW", foreach=True)}),
    row(
        "fsdp sgd fused",
        {**FSDP, **optimizer("SGD", fused=True)},
        exit="fails",
        cause=NO_STRATEGY,
    ),
    row("fsdp clip inf", {**FSDP, "clip": [0.01, "inf", True]}),
    row("fsdp clip 1", {**FSDP, "clip": [0.1, 1, False]}),
    row("fsdp clip 3", {**FSDP, "clip": [0.1, 3, True]}),
    row("fsdp schedule", {**FSDP, "schedule": True}),
    row("hsdp no all-reduce", {**HSDP, "accumulate": "set_requires_all_reduce"}, 4),
    row("hsdp no sync", {**HSDP, "accumulate": "set_requires_gradient_sync"}, 4),
    row("hsdp clip inf", {**HSDP, "clip": [0.01, "inf", True]}, 4),
    row("hsdp tied", {**HSDP, "tied": True}, 4),
    row(
        "context parallel",
        {"wrap": "cp"},
        exit="fails",
        cause="torch 2.13 has ring attention for kernels of CUDA alone, and says so",
    ),
    # Tensor parallelism with the loss computed on cut logits.
    row("tp loss", TP),
    row("tp loss sequence", {**TP, "sequence": True}),
    row("tp loss weighted", {**TP, "loss": {"weighted": True}}),
    row("tp loss ignored", {**TP, "loss": {"ignore_index": 3}}),
    row(
        "tp loss smoothed",
        {**TP, "loss": {"label_smoothing": 0.1}},
        exit="fails",
        cause="torch 2.13: loss_parallel has no label smoothing, and says so",
    ),
]
