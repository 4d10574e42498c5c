"""The cases: a model of real size, made parallel in one way, in one precision, and one bug each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Training = dict[str, Any]  # what train.py reads
SEEDS = (1, 2, 3)  # of the noise runs
PRECISIONS = ("fp32", "bf16")
SPECIFICATION = "specification.json"  # beside the traces; the reference run writes it


@dataclass(frozen=True)
class Bug:
    """What is wrong in the second candidate.

    name: the key of `faults.FAULTS`.
    first: globs over "kind name"; the first finding of the comparison has to be one of these, and
        that of the audit unless `audited` says where else it shows.
    audited: what an audit of the run alone finds first, if it is not that.
    """

    name: str
    says: str
    first: tuple[str, ...]
    audited: tuple[str, ...] = ()

    @property
    def first_of_audit(self) -> tuple[str, ...]:
        return self.audited or self.first


@dataclass(frozen=True)
class Case:
    """axes: of the device mesh, with their sizes; those that are not "tp" share out the data."""

    model: str
    layout: str
    axes: dict[str, int]
    precision: str
    bug: Bug

    @property
    def name(self) -> str:
        return f"{self.model}-{self.layout}-{self.precision}"

    @property
    def ranks(self) -> int:
        ranks = 1
        for size in self.axes.values():
            ranks *= size
        return ranks

    def trainings(self, tiny: bool) -> dict[str, tuple[int, Training]]:
        """By the trace's name: how many processes, and what they train."""
        told = {"model": self.model, "precision": self.precision, "tiny": tiny}
        # FSDP2 computes in bf16 with weights in fp32, and so does its reference, on one rank.
        mixed = self.precision == "bf16" and "dp" in self.axes and self.layout != "ddp"
        alone = {**told, "layout": "fsdp2" if mixed else "one", "axes": {"dp": 1} if mixed else {}}
        run = {**told, "layout": self.layout, "axes": self.axes}
        return {
            "reference": (1, {**alone, "specify": True}),
            **{f"noise{seed}": (1, {**alone, "noise": seed}) for seed in SEEDS},
            "healthy": (self.ranks, run),
            "faulty": (self.ranks, {**run, "fault": self.bug.name}),
        }


_EVERY_GRADIENT = (
    *("grad_output loss", "grad_output (model)*", "grad_output lm_head*"),
    *("main_grad *", "param_grad *"),
)
_LAYOUTS = (
    (
        "gpt2",
        "ddp",
        {"dp": 2},
        Bug(
            "mlp_not_synchronised",
            "one layer's MLP gradients are not averaged over the ranks",
            ("main_grad transformer.h.*.mlp.*",),
        ),
    ),
    (
        "gpt2",
        "fsdp2",
        {"dp": 2},
        Bug("summed", "gradients are summed over the ranks, not averaged", _EVERY_GRADIENT),
    ),
    (
        "llama",
        "fsdp2",
        {"dp": 2},
        Bug("norm_of_shard", "the gradient norm is that of one rank's shards", ("grad_norm *",)),
    ),
    (
        "llama",
        "tp",
        {"tp": 2},
        Bug(
            "not_reduced",
            "one layer's down_proj is not summed over the ranks",
            ("output model.layers.*.mlp*",),
        ),
    ),
    (
        "llama",
        "tp-fsdp2",
        {"dp": 2, "tp": 2},
        Bug(
            "divided_by_all",
            "gradients are divided by all four ranks, not by the two that share out the data",
            _EVERY_GRADIENT,
        ),
    ),
    (
        "moe",
        "fsdp2",
        {"dp": 2},
        Bug(
            "not_normalised",
            "one layer's router does not divide the chosen experts' weights by their sum",
            ("output model.layers.*.mlp.gate*", "output model.layers.*.mlp*"),
        ),
    ),
)

CASES = tuple(Case(*told[:3], precision, told[3]) for told in _LAYOUTS for precision in PRECISIONS)
