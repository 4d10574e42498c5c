"""The grid of Megatron-core: the cases that tests/frameworks trains, and more in bf16."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import megatron_cases
from megatron_cases import (
    ALL_RECOMPUTED,
    ALLGATHER,
    CP2,
    EP2,
    ETP1,
    PP2,
    SP,
    TP2,
    TP4,
    VPP2_ON_PP2,
    ZERO,
)

from power.layout_names import axes, model
from power.rows import ALL_GRADIENTS, LOSS_GRADIENT, TOKENS
from power.runs import Case, Family, Fault, Run

LAUNCHER = Path(megatron_cases.__file__).with_name("launch_megatron.py")
# Models of tests/frameworks in bf16 too.
_HALVES = {"half-modern": "modern", "half-experts": "experts"}


def _case(model: str, *arguments: Any, **config: Any) -> Case:
    """A case of a model of tests/frameworks, or of one in bf16."""
    config = {**config, "bf16": True} if model in _HALVES else config
    return megatron_cases.case(_HALVES.get(model, model), *arguments, **config)


# In bf16 tests/frameworks has few layouts: number of processes -> name -> case.
_MORE = {
    2: {
        "half_tp2": _case("half", TP2),
        "half_cp2": _case("half", CP2),
        "half_dp2": _case("half"),
        "half_pp2_vpp2": _case("half", PP2, **VPP2_ON_PP2),
        "half_tp2_recomputed": _case("half", TP2, **ALL_RECOMPUTED),
        "half_pp2_recomputed": _case("half", PP2, **ALL_RECOMPUTED),
        "half-modern_tp2_sp": _case("half-modern", TP2, **SP),
        "half-modern_pp2": _case("half-modern", PP2),
        "half-modern_cp2": _case("half-modern", CP2),
        "half-modern_dp2_zero": _case("half-modern", None, ZERO),
        "half-experts_ep2": _case("half-experts", EP2),
        "half-experts_tp2_sp": _case("half-experts", TP2, **SP),
        "half-experts_pp2": _case("half-experts", PP2),
        "half-experts_dp2": _case("half-experts"),
    },
    4: {
        "half_tp4_sp": _case("half", TP4, **SP),
        "half_pp2_dp2_zero": _case("half", PP2, ZERO),
        "half_tp2_cp2_sp": _case("half", {**TP2, **CP2}, **SP),
        "half_dp2_cp2_zero": _case("half", CP2, ZERO),
        "half-modern_tp2_pp2_sp": _case("half-modern", {**TP2, **PP2}, **SP),
        "half-experts_ep2_pp2": _case("half-experts", {**EP2, **PP2}),
        "half-experts_tp2_ep2_sp": _case("half-experts", {**TP2, **EP2, **ETP1}, **SP, **ALLGATHER),
    },
}


def family() -> Family:
    groups: dict[str, list[Run]] = {}
    for table in (megatron_cases.QUICK, megatron_cases.LONG, _MORE):
        for ranks, cases in table.items():
            for name, case in cases.items():
                which, layout = name.split("_", 1)
                groups.setdefault(which, []).append(Run(name, ranks, axes(layout), case))
    models = []
    for name, runs in groups.items():
        precision = "bf16" if runs[0].case["config"].get("bf16") else "fp32"
        models.append(model(name, precision, _case(name), runs, _faults(name)))
    return Family(f"Megatron-core {megatron_cases.NEWEST}", LAUNCHER, tuple(models))


def _faults(which: str) -> list[Fault]:
    known = {
        name: (n, case)
        for table in (megatron_cases.FAULTS, megatron_cases.LONG_FAULTS)
        for n, cases in table.items()
        for name, case in cases.items()
    }
    found = []

    def add(name: str, first: tuple[str, ...], wrong: tuple[str, ...]) -> None:
        ranks, case = known[name]
        found.append(Fault(Run(name, ranks, frozenset(), case), first, wrong))

    if which == "plain":
        norms = ("main_grad *norm*",)
        embedding = ("main_grad embedding.word_embeddings.weight",)
        add("plain_norms_not_summed", norms, norms)
        add("plain_copies_not_summed", embedding, embedding)
        add("plain_divided_twice", LOSS_GRADIENT, ALL_GRADIENTS)
        add("plain_virtual_stages_mixed_up", ("input decoder.layers.*",), ())
    if which == "experts":
        experts = ("main_grad *local_experts*",)
        add("experts_not_reduced", experts, experts)
    if which == "half":
        for layout, parallel in (("tp2_sp", TP2), ("pp2", PP2)):
            more = SP if "sp" in layout else {}
            case = {**_case("half", parallel, **more), "divided_by": 31 / 32}
            run = Run(f"{TOKENS}-{layout}", 2, axes(layout), case)
            found.append(Fault(run, LOSS_GRADIENT, ALL_GRADIENTS))
    return found
