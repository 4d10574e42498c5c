"""The smallest faults that are caught: by `ttrace selftest`, and by fraction of the tensor."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from typing import Any

from support.ttrace_cli import run_ttrace

from power.comparing import compare, key_of
from power.editing import Scaled, copied, manifest_of, part_of, removed
from power.healthy import paths, told
from power.runs import SEEDS, Family, Model
from power.store import Store

# The sizes that are tried, eight to a factor of ten, as `ttrace selftest` has them.
LADDER = [10 ** (power / 8) for power in range(-56, 1)]
FRACTIONS = {"1": 1.0, "1/4": 1 / 4, "1/16": 1 / 16, "1/64": 1 / 64}
# What no other edited tensor is judged by; of the first step and micro-batch, which say enough.
KINDS = ("output", "grad_output", "param_grad", "main_grad")


def names(family: Family, model: Model) -> list[str]:
    found = []
    for run in model.sampled:
        found.append(_name("selftest", family, model, run))
        found += [_name("fraction", family, model, run, fraction) for fraction in FRACTIONS]
    return found


def _name(what: str, family: Family, model: Model, run: str, fraction: str = "") -> str:
    name = f"{what}/{family.name}/{model.name}/{run}"
    return f"{name}/{fraction.replace('/', ':')}" if fraction else name


def detect(family: Family, model: Model, traces: Path, store: Store, scratch: Path) -> None:
    """Puts faults into the sampled runs of a model, one run after the other."""
    for run in model.sampled:
        members = {**told(family, model), "run": run}
        place = paths(model, traces, run, SEEDS)
        name = _name("selftest", family, model, run)
        if name not in store:
            store.add(name, **members, **selftest(*place, scratch))
        for fraction, size in FRACTIONS.items():
            name = _name("fraction", family, model, run, fraction)
            if name not in store:
                store.add(name, **members, fraction=fraction, tensors=by_part(place, size, scratch))


def selftest(reference: Path, run: Path, noise: Sequence[Path], scratch: Path) -> dict[str, Any]:
    """What `ttrace selftest` says, without its words."""
    file = scratch / "selftest.json"
    flags = [flag for one in noise for flag in ("--noise", one)]
    done = run_ttrace("selftest", reference, run, *flags, "--json", file, timeout=1800)
    if not file.exists():
        return {"failed": done.stderr or done.stdout}
    said = json.loads(file.read_text(encoding="utf-8"))
    file.unlink()
    tensors = [
        {
            "kind": tensor["kind"],
            "name": tensor["name"],
            "dtype": tensor["dtype"],
            "elements": prod(tensor["shape"]),
            "rule": tensor["rule"],
            "faults": {
                fault: trial.get("size", trial["state"])
                for fault, trial in tensor["faults"].items()
                if trial["state"] in ("caught", "missed")
            },
        }
        for tensor in said["tensors"]
        if "faults" in tensor
    ]
    return {"exit_code": said["exit_code"], "why": said.get("why"), "tensors": tensors}


def by_part(
    place: tuple[Path, Path, list[Path]], fraction: float, scratch: Path
) -> list[dict[str, Any]]:
    """The smallest scale error in a part of each tensor that is caught, all tensors at a time.

    Each tensor of the run's copy has a fault of its own size; no verdict depends on another's.
    """
    reference, run, noise = place
    copy = scratch / f"scaled{run.suffix}"
    copied(run, copy)
    chosen = [
        (entry, part)
        for entry in manifest_of(run)["tensors"]
        if entry["kind"] in KINDS
        and (entry["step"], entry.get("microbatch") or 0) == (0, 0)
        and entry["dtype"] in ("float32", "bfloat16", "float16")
        and (part := part_of(entry, fraction)) is not None
    ]
    scaled = Scaled(copy, [entry for entry, _ in chosen])

    def caught(sizes: list[int]) -> list[bool]:
        scaled.write(
            [(entry, part, LADDER[size]) for (entry, part), size in zip(chosen, sizes, strict=True)]
        )
        results = compare(reference, copy, noise, scratch)["results"]
        wrong = {key_of(one["key"]) for one in results if one["outcome"] == "diverged"}
        return [key_of(entry) in wrong for entry, _ in chosen]

    sizes = bisected(len(chosen), caught, len(LADDER))
    removed(copy)
    return [
        {
            "key": list(key_of(entry)),
            "dtype": entry["dtype"],
            "elements": prod(entry["shape"]),
            "size": None if size is None else LADDER[size],
        }
        for (entry, _), size in zip(chosen, sizes, strict=True)
    ]


def bisected(count: int, caught: Callable[[list[int]], list[bool]], steps: int) -> list[int | None]:
    """For each of `count`, the first of `steps` sizes that is caught; None where none is.

    caught: tells for one size of each whether it is. Each next size is as often asked for all.
    """
    low, high = [-1] * count, [steps] * count
    while any(h - lo > 1 for lo, h in zip(low, high, strict=True)):
        middle = [
            (lo + h) // 2 if h - lo > 1 else max(lo, 0) for lo, h in zip(low, high, strict=True)
        ]
        for number, yes in enumerate(caught(middle)):
            if high[number] - low[number] > 1:
                (high if yes else low)[number] = middle[number]
    return [h if h < steps else None for h in high]
