"""The cases: a job with state, how it is made parallel, and what is planted in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Training = dict[str, Any]
SEEDS = (1, 2, 3)
ALONE: Training = {"layout": "one", "axes": {}}
LAYOUTS: dict[str, Training] = {
    "ddp": {"layout": "ddp", "axes": {"dp": 2}},
    "ddp-named": {"layout": "ddp", "axes": {"dp": 2}, "named": True},
    "fsdp2": {"layout": "fsdp2", "axes": {"dp": 2}},
    "fsdp2-again": {"layout": "fsdp2", "axes": {"dp": 2}, "checkpointing": True},
    "zero1": {"layout": "ddp", "axes": {"dp": 2}, "zero": True},
    "tp": {"layout": "tp", "axes": {"tp": 2}},
}


@dataclass(frozen=True)
class Group:
    """Cases that share a reference and its noise runs."""

    model: str
    optimizer: str
    precision: str = "fp32"
    average: bool = False

    @property
    def name(self) -> str:
        return f"{self.model}-{self.optimizer}-{self.precision}"

    def training(self, tiny: bool, layout: str = "", **more: Any) -> Training:
        told: Training = {"model": self.model, "optimizer": self.optimizer, "average": self.average}
        told |= {"precision": self.precision, "tiny": tiny}
        return {**told, **LAYOUTS.get(layout, ALONE), **more}


@dataclass(frozen=True)
class Fault:
    """first: globs over "kind name" of what has to be named first; causes: one of them has to be
    its first cause. Without causes, the place alone is held against what was said."""

    number: str
    group: Group
    layout: str
    name: str
    says: str
    first: tuple[str, ...]
    causes: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return f"{self.number}-{self.group.name}-{self.layout}-{self.name}"


GROUPS = {
    "adamw": Group("gpt2", "adamw", average=True),
    "masters": Group("gpt2", "adamw", "bf16"),
    "muon": Group("gpt2", "muon"),
    "lion": Group("gpt2", "lion"),
    "adafactor": Group("gpt2", "adafactor"),
    "experts": Group("balanced", "adamw", average=True),
    "experts muon": Group("balanced", "muon"),
    "resnet": Group("resnet", "sgd"),
    "resnet sync": Group("resnet-sync", "sgd"),
}

# Number, group, layout, fault, what it is, what has to be named first, its possible causes.
_TABLE = """
01; masters; ddp; masters_stale; masters stale after weights were loaded;
    optimizer_state *.main_param, param_after_step *; stale_master
01n; masters; ddp-named; masters_stale; the same, with masters that are named;
    optimizer_state *.main_param, param_after_step *; stale_master
02; masters; ddp; masters_from_weights; masters made again from bf16 weights;
    optimizer_state *.main_param; lower_precision
03; adamw; ddp; moments_lost; Adam's moments lost at a resume; optimizer_state *, setting update;
04; adamw; ddp; moments_shifted; moments shifted by one parameter; optimizer_state *; other_layer
05; adamw; ddp; squares_of_other; exp_avg_sq of another parameter;
    optimizer_state *.exp_avg_sq; other_layer
06; adamw; ddp; count_lost; the number of steps lost at a resume; setting update;
07; experts muon; tp; by_shard; Muon on each tp shard by itself;
    param_after_step *; orthogonal_by_shard
08; muon; fsdp2; by_shard; Muon on each FSDP shard by itself;
    param_after_step *; orthogonal_by_shard
09; lion; ddp; momentum_first; Lion's momentum moved before the sign is taken;
    param_after_step *;
10; adafactor; fsdp2; by_shard; Adafactor's factors are those of the shard; param_after_step *;
11; experts; fsdp2; rate_of_other_group; the learning rate of another group; setting lr;
12; resnet; ddp; norms_decayed; norms and biases are decayed; setting weight_decay;
13; adamw; ddp; scheduled_each_microbatch; the scheduler's step per micro-batch; setting lr;
14; experts; fsdp2-again; bias_counted_again; tokens counted again in a recomputation;
    buffer_after_step *e_score_correction_bias; scaled, scaled_update
15; experts; ddp; bias_of_own; tokens of the experts not summed over dp;
    buffer_after_step *e_score_correction_bias; replica_conflict, missing_reduction
16; adamw; ddp; averaged_each_microbatch; the average moved in each micro-batch, before the update;
    buffer_after_step average.*; follows_old
17; experts; ddp; never_averaged; the average never moved; buffer_after_step average.*; stale
18; resnet sync; ddp; statistics_of_own; SyncBatchNorm keeps each rank's statistics;
    buffer_after_step *running_*; replica_conflict, missing_reduction
19; resnet; ddp; never_stepped; a parameter left out of the optimizer's groups;
    param_after_step *, setting parameter group; stale
20; adamw; zero1; shard_not_broadcast; ZeRO 1: a rank's updates not broadcast;
    param_after_step *; stale
3+11; adamw; ddp; moments_lost+rate_of_other_group; 3 and 11; optimizer_state *, setting *;
14+16; experts; fsdp2-again; bias_counted_again+averaged_each_microbatch; 14 and 16;
    buffer_after_step *e_score_correction_bias, buffer_after_step average.*; scaled, follows_old
7+19; experts muon; tp; by_shard+never_stepped; 7 and 19;
    param_after_step *, setting parameter group; orthogonal_by_shard, stale
"""


def _faults() -> tuple[Fault, ...]:
    lines = _TABLE.replace(";\n    ", "; ").strip().splitlines()
    found = []
    for line in lines:
        number, group, layout, name, says, first, causes = line.split(";")
        globs, reasons = (
            tuple(one.strip() for one in told.split(",") if one.strip()) for told in (first, causes)
        )
        words = (GROUPS[group.strip()], layout.strip(), name.strip(), says.strip())
        found.append(Fault(number, *words, globs, reasons))
    return tuple(found)


FAULTS = _faults()
