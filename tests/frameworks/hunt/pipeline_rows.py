"""torch.distributed.pipelining with all of its schedules, and the whole stack of torchtitan."""

from __future__ import annotations

PLAIN = {"kind": "plain"}
LOST = "a compiled block returns no gradient: found/torch_compiled_tensor_parallel.py"
TURNING = "refused by `trace`: the first and the last stage are on one rank"


def row(name, case, world=2, launcher="launch_torch.py", **more):
    return {
        "row": name.replace(" ", "_"),
        "launcher": launcher,
        "world": world,
        "case": case,
        "reference": PLAIN,
        **more,
    }


def titan(name, case, world=4, **more):
    """A launcher of scripts by name, whose reference is the same model alone."""
    launched = row(f"titan {name}", {"script": "hunt.train_titan", **case}, world, **more)
    launched["launcher"] = "launch_transformers.py"
    launched["reference"] = {"script": "train_torch", **PLAIN}
    return launched


ROWS = [
    row("pipeline gpipe", {"schedule": "gpipe"}),
    row("pipeline 1f1b", {"schedule": "1f1b"}),
    row("pipeline interleaved", {"schedule": "interleaved", "stages": 2}),
    row("pipeline zero bubble", {"schedule": "zero_bubble", "stages": 2}),
    row("pipeline zero bubble fsdp", {"schedule": "zero_bubble", "stages": 2, "data": "fsdp"}, 4),
    row("pipeline zbv", {"schedule": "zbv", "stages": 2}, exit="fails", cause=TURNING),
    row("pipeline dualpipev", {"schedule": "dualpipev", "stages": 2}, exit="fails", cause=TURNING),
    titan("dp tp", {"axes": {"dp": 2, "tp": 2}, "compiled": False}),
    titan(
        "dp tp compiled",
        {"axes": {"dp": 2, "tp": 2}},
        exit=1,
        first="embedding",
        cause=LOST,
    ),
    titan(
        "dp tp sequence compiled",
        {"axes": {"dp": 2, "tp": 2}, "sequence": True},
        exit=1,
        first="embedding",
        cause=LOST,
    ),
    titan("dp tp compiled eager", {"axes": {"dp": 2, "tp": 2}, "backend": "eager"}),
    titan("tp compiled", {"axes": {"tp": 2}}, 2, exit="fails", cause=LOST),
    titan("tp compiled eager", {"axes": {"tp": 2}, "backend": "eager"}, 2),
    titan("pp tp", {"axes": {"pp": 2, "tp": 2}, "compiled": False}),
    titan("pp tp compiled eager", {"axes": {"pp": 2, "tp": 2}, "backend": "eager"}),
    titan("pp dp compiled", {"axes": {"pp": 2, "dp": 2}}),
]
