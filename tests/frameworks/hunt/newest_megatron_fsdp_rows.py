"""Options of megatron-fsdp: ZeRO 0 to 3 with and without a reduction of every micro-batch."""

from __future__ import annotations

LAUNCHER = "launch_megatron_fsdp.py"
# The settings of a case that its one-process reference takes over. The others say only how the work
# is shared out.
ALSO_ALONE = ("tied", "frozen", "half", "optimizer", "precision")
EACH = {"each": True}  # gradients are reduced after every micro-batch, not only after the last
TWICE = "reduced by the hooks and then once more: found/megatron_fsdp_reduced_twice.py"
NO_EXPERTS = "with average_in_collective it asks for a mesh of experts, which it does not need"
AGAIN = "reduced again after every backward: found/megatron_fsdp_reduced_again.py"


def row(name, case, world=2, **more):
    alone = {key: value for key, value in case.items() if key in ALSO_ALONE}
    return {
        "row": f"megatron_fsdp_0.6.1_{name.replace(' ', '_')}",
        "launcher": LAUNCHER,
        "world": world,
        "newest": True,
        "case": case,
        "reference": {"zero": 0, **alone},
        **more,
    }


def stages(name, case, world=2, only=range(4), told=None, **settings):
    """One row for each stage of ZeRO in `only`. told: by stage, what to add to the rows of the
    stages that are known not to match."""
    case = {**case, "settings": settings} if settings else case
    return [
        row(
            f"zero {zero} {name}".strip(),
            {"zero": zero, **case},
            world,
            **(told or {}).get(zero, {}),
        )
        for zero in only
    ]


STALE = {
    "exit": 1,
    "first": "layers.0.attention_norm",
    "cause": "weights are not gathered after a step: found/megatron_fsdp_stale_weights.py",
}
LEFT = {
    "exit": 1,
    "first": "main_grad",
    "cause": "gradients go to decoupled_grad, which torch's AdamW does not read: nothing moves",
}
FAILS = {"exit": "fails", "cause": NO_EXPERTS}
REDUCED_TWICE = {"exit": 1, "first": "main_grad", "cause": TWICE}
HALF = {"half": True, "precision": {"main_grads_dtype": "float32"}}
ROWS = [
    *stages("", {}),
    # One micro-batch on each rank: nothing is accumulated.
    *stages("each of four", EACH, 4),
    *stages("four", {}, 4),
    *stages("each", EACH, only=(2, 3)),
    # Reducing a mean again does not change it, so of ZeRO 0 only sums are wrong.
    row("zero 0 each", {"zero": 0, **EACH}),
    row("zero 1 each", {"zero": 1, **EACH}, exit=1, first="main_grad", cause=AGAIN),
    *stages("summed", {}, calculate_per_token_loss=True),
    *stages("summed each", EACH, only=(2, 3), calculate_per_token_loss=True),
    *stages("averaged", {}, told=dict.fromkeys(range(4), FAILS), average_in_collective=True),
    *stages(
        "averaged each",
        EACH,
        only=(2, 3),
        told=dict.fromkeys((2, 3), FAILS),
        average_in_collective=True,
    ),
    *stages("no buckets", {}, disable_bucketing=True),
    *stages("no buckets each", EACH, only=(2, 3), disable_bucketing=True),
    *stages(
        "no overlap",
        {},
        told={1: REDUCED_TWICE, 2: STALE},
        overlap_grad_reduce=False,
        overlap_param_gather=False,
    ),
    *stages(
        "no overlap each",
        EACH,
        only=(2, 3),
        told={2: STALE},
        overlap_grad_reduce=False,
        overlap_param_gather=False,
    ),
    *stages("double buffer", {}, only=(2, 3), fsdp_double_buffer=True),
    *stages("double buffer each", EACH, only=(2, 3), fsdp_double_buffer=True),
    *stages("fine gather", {}, only=(3,), enable_fine_grained_param_gather=True),
    *stages("decoupled", {}, only=(2,), told={2: LEFT}, use_decoupled_grad=True),
    *stages("tied", {"tied": True}),
    *stages("frozen", {"frozen": "attention"}, only=(0, 2, 3)),
    *stages("checkpointed", {"checkpoint": True}, only=(2, 3)),
    *stages("checkpointed each", {"checkpoint": True, **EACH}, only=(3,)),
    *stages("half", HALF),
    *stages("half each", {**HALF, **EACH}, only=(2, 3)),
    *stages("sgd", {"optimizer": ["SGD", {"momentum": 0.9}]}, only=(0, 1, 3)),
    *stages(
        "amsgrad foreach", {"optimizer": ["AdamW", {"amsgrad": True, "foreach": True}]}, only=(0,)
    ),
    *stages("fused", {"optimizer": ["AdamW", {"fused": True}]}, only=(0, 3)),
]
