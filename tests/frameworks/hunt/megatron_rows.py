"""Options of Megatron-core beside the grid of `test_megatron.py`: losses of routers above all."""

from __future__ import annotations

import megatron_cases as cases
from megatron_cases import CP2, EP2, OVERLAP, PP2, SP, TP2, ZERO, case

LAUNCHER = "launch_megatron.py"
AUX = {"moe_aux_loss_coeff": 0.1}


def row(name, model, parallel=None, reduction=None, config=None, world=2, **more):
    """config: on one process too."""
    config = config or {}
    there = more.pop("there", {})
    return {
        "row": f"megatron_{name.replace(' ', '_')}",
        "launcher": LAUNCHER,
        "world": world,
        "case": case(model, parallel, reduction, **config, **there),
        "reference": case(model, **config),
        **more,
    }


SEQ = {"moe_router_load_balancing_type": "seq_aux_loss", **AUX}
GLOBAL = {"moe_router_load_balancing_type": "global_aux_loss", **AUX}
Z_LOSS = {"moe_z_loss_coeff": 0.1}
SIGMOID = {"moe_router_score_function": "sigmoid", "moe_router_enable_expert_bias": True}
OLDER = ("0.15.3", "0.14.0", "0.13.1")


def older(version):
    """What the grid of `test_megatron.py` does not train with older versions."""

    def row_of(name, *arguments, **more):
        return row(f"{version} {name}", *arguments, older=f"megatron-core=={version}", **more)

    return [
        row_of("tp2 sp", "plain", TP2, there=SP),
        row_of("dp2 overlap", "plain", None, {**ZERO, **OVERLAP}),
        row_of("aux ep2", "experts", EP2, config=SEQ),
        row_of("z loss tp2 sp", "experts", TP2, config=Z_LOSS, there=SP),
    ]


ROWS = [
    row("aux tp2 sp", "experts", TP2, config=AUX, there=SP),
    row("aux pp2", "experts", PP2, config=AUX),
    row("aux cp2", "experts", CP2, config=AUX),
    row("aux dp2 zero", "experts", None, ZERO, config=AUX),
    row("seq aux ep2", "experts", EP2, config=SEQ),
    row("seq aux tp2 sp", "experts", TP2, config=SEQ, there=SP),
    row(
        "global aux dp2",
        "experts",
        config=GLOBAL,
        exit=1,
        first="router.weight",
        cause="by definition: of the tokens so far, other ones with other micro-batches",
    ),
    row("z loss tp2 sp", "experts", TP2, config=Z_LOSS, there=SP),
    row("z loss ep2", "experts", EP2, config=Z_LOSS),
    row("sigmoid ep2", "experts", EP2, config=SIGMOID),
    row("per token aux dp2", "experts", config={**AUX, "calculate_per_token_loss": True}),
    row("modern dp2 overlap", "modern", None, {**ZERO, **OVERLAP}),
    row(
        "virtual stages",
        "plain",
        PP2,
        there=cases.VPP2,
        exit=1,
        cause="with batch_p2p_comm on two ranks messages change places: docs/megatron.md",
    ),
    *(row for version in OLDER for row in older(version)),
]
