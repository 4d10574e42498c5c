"""What the rows of all frameworks share: names of axes, and which runs are looked into closely."""

from __future__ import annotations

import re
from collections.abc import Iterable

from power.runs import Case, Fault, Model, Run

# Runs into which faults of all sizes are put.
SAMPLED = {
    *("plain_tp2_sp", "plain_pp2", "plain_dp2_zero", "half_tp2_sp", "half_pp2", "experts_ep2"),
    *("fsdp2", "tp_sequence", "1f1b", "fsdp2_bf16"),
    *("fp16_zero2", "bf16_zero1_wide"),
}
# Runs that lose their keys one by one, and of how many keys one.
EMPTIED = {"plain_tp2_sp": 97, "plain_dp2_zero": 97, "experts_ep2": 97, "fsdp2": 97, "1f1b": 97}
# What a word of a case's name says of its layout, where it is not an axis's own name.
_MEANT = {
    "fsdp2": "fsdp",
    "hsdp": "fsdp",
    "ddp": "dp",
    "sequence": "sp",
    "1f1b": "pp",
    "interleaved": "vpp",
    "gpipe": "pp",
    "zero-bubble": "vpp",
    "recomputed": "recompute",
    "overlap": "overlap",
    "edp2": "dp",
}
_AXES = {"tp", "sp", "pp", "vpp", "cp", "dp", "zero", "ep"} | set(_MEANT.values())


def axes(name: str) -> frozenset[str]:
    """tp2_dp2_zero -> tp, dp, zero."""
    words = (
        _MEANT.get(word, re.sub(r"\d+$", "", word))
        for word in name.replace("zero_bubble", "zero-bubble").split("_")
    )
    return frozenset(word for word in words if word in _AXES)


def model(
    name: str, precision: str, reference: Case, runs: Iterable[Run], faults: list[Fault]
) -> Model:
    runs = tuple(runs)
    names = [run.name for run in runs]
    sampled = tuple(name for name in names if name in SAMPLED)
    emptied = {name: EMPTIED[name] for name in names if name in EMPTIED}
    return Model(name, precision, reference, runs, tuple(faults), sampled, emptied)
