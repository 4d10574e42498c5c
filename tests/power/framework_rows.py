"""The grid of real frameworks, made of the cases that tests/frameworks trains."""

from __future__ import annotations

from pathlib import Path

import test_deepspeed
import test_torch

from power import megatron_rows
from power.layout_names import axes, model
from power.rows import ALL_GRADIENTS
from power.runs import Family, Fault, Run

FRAMEWORKS = Path(test_torch.__file__).parent


def families() -> list[Family]:
    return [megatron_rows.family(), _torch(), _deepspeed()]


def _torch() -> Family:
    groups: dict[str, list[Run]] = {"float32": [], "bfloat16": []}
    for ranks, tables in (
        (2, (test_torch.ON_TWO, test_torch.LONG_ON_TWO)),
        (4, (test_torch.ON_FOUR, test_torch.LONG_ON_FOUR)),
    ):
        for table in tables:
            for name, (case, _) in table.items():
                kind = "bfloat16" if case.get("bf16") else "float32"
                groups[kind].append(Run(name, ranks, axes(name), case))
    # FSDP2's mixed precision over more of its meshes.
    half = [("fsdp2_tp_bf16", test_torch.BOTH), ("hsdp_bf16", test_torch.LONG_ON_FOUR["hsdp"][0])]
    groups["bfloat16"] += [Run(n, 4, axes(n), {**case, "bf16": True}) for n, case in half]
    models = []
    for name, runs in groups.items():
        precision = {"float32": "fp32", "bfloat16": "bf16"}[name]
        faults = _torch_faults() if name == "float32" else []
        models.append(model(name, precision, test_torch.REFERENCES[name], runs, faults))
    return Family("PyTorch 2.13", FRAMEWORKS / test_torch.LAUNCHER, tuple(models))


def _torch_faults() -> list[Fault]:
    wrong = {
        "left_in_no_sync": ("main_grad *",),
        "divided_by_the_wrong_count": ALL_GRADIENTS,
        "norms_not_summed": ("param_grad *attention_norm*", "main_grad *attention_norm*"),
        "not_scaled": ALL_GRADIENTS,
        "targets_swapped": ("loss *",),
    }
    found = []
    for name, (case, where, _) in test_torch.FAULTS.items():
        first, kind = where.split(" · ")[:2]
        run = Run(name, 2, frozenset(), case)
        found.append(Fault(run, (f"{kind} {first}",), wrong[name]))
    return found


def _deepspeed() -> Family:
    groups: dict[str, list[Run]] = {}
    for name, case in {**test_deepspeed.QUICK, **test_deepspeed.LONG}.items():
        stage = case["stage"]
        used = {"dp", "zero"} if stage else {"dp"}
        groups.setdefault(name.split("_")[0], []).append(Run(name, 2, frozenset(used), case))
    models = []
    for name, runs in groups.items():
        precision = name if name in ("bf16", "fp16") else "fp32"
        models.append(model(name, precision, test_deepspeed.REFERENCES[name], runs, []))
    return Family("DeepSpeed 0.19.8", FRAMEWORKS / test_deepspeed.LAUNCHER, tuple(models))
