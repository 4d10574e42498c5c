"""DeepSpeed's stages and options of ZeRO."""

from __future__ import annotations

LAUNCHER = "launch_deepspeed.py"


def row(name, case, **more):
    reference = {"tied": False} if case.get("tied") is False else {}
    named = {"row": f"deepspeed_{name.replace(' ', '_')}", "launcher": LAUNCHER, "world": 2}
    return {**named, "case": case, "reference": reference, **more}


def zero(stage, settings=None, **options):
    return {"stage": stage, "zero": options, "settings": settings or {}}


CPU = {"device": "cpu"}
ROWS = [
    row("0", zero(0)),
    row("1", zero(1)),
    row("2", zero(2)),
    row("3", zero(3)),
    row("0 predivided", zero(0, {"prescale_gradients": True, "gradient_predivide_factor": 2.0})),
    row("1 predivided", zero(1, {"prescale_gradients": True, "gradient_predivide_factor": 2.0})),
    row(
        "2 predivided",
        zero(2, {"prescale_gradients": True, "gradient_predivide_factor": 2.0}),
        exit="fails",
        cause="DeepSpeed 0.19.8 has no factor for ZeRO-2, and says so",
    ),
    row("1 all-reduce", zero(1, reduce_scatter=False)),
    row("2 all-reduce", zero(2, reduce_scatter=False)),
    row("2 round robin", zero(2, round_robin_gradients=True)),
    row("2 not contiguous", zero(2, contiguous_gradients=False)),
    row("2 small buckets", zero(2, reduce_bucket_size=100, allgather_bucket_size=100)),
    row("3 small groups", zero(3, sub_group_size=100)),
    row("3 small buckets", zero(3, reduce_bucket_size=100, stage3_prefetch_bucket_size=50)),
    row("3 kept whole", zero(3, stage3_param_persistence_threshold=10**6)),
    row(
        "2 untied",
        {**zero(2), "tied": False},
    ),
    row(
        "pipeline",
        {"script": "hunt.train_deepspeed_pipeline", "stage": 0},
        exit="fails",
        cause="refused by `trace`: a PipelineEngine has schedules of its own",
    ),
]
