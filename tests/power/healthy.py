"""Healthy runs against their reference, with no noise run, each single one, and all three."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.ttrace_cli import MATCH, run_ttrace

from power.comparing import Key, compare, key_of, number, over_limit, over_noise, summary
from power.runs import SEEDS, Family, Model
from power.store import Store
from power.training import trace_path

NOISE = ((), *((seed,) for seed in SEEDS), SEEDS)


def names(family: Family, model: Model) -> list[str]:
    """The results that a model gives."""
    found = [_name(family, model, run.name, seeds) for run in model.runs for seeds in NOISE]
    return [*found, *calibrations(family, model)]


def calibrations(family: Family, model: Model) -> set[str]:
    return {f"calibration/{family.name}/{model.name}"}


def _name(family: Family, model: Model, run: str, seeds: tuple[int, ...]) -> str:
    return f"healthy/{family.name}/{model.name}/{run}/{''.join(map(str, seeds)) or 'none'}"


def compare_all(
    family: Family, model: Model, traces: Path, failed: dict[str, str], store: Store, scratch: Path
) -> None:
    """failed: why, of the runs that could not be trained."""
    noise = calibrated(family, model, traces, store, scratch)
    for run in model.runs:
        for seeds in NOISE:
            name = _name(family, model, run.name, seeds)
            if name in store:
                continue
            members = {
                **told(family, model),
                "run": run.name,
                "ranks": run.ranks,
                "axes": sorted(run.axes),
                "noise": list(seeds),
                "case": run.case,
            }
            if why := failed.get(model.trace(run.name)):
                store.add(name, **members, failed=why)
                continue
            report = compare(*paths(model, traces, run.name, seeds), scratch)
            members["histograms"] = (
                {
                    "over_noise": over_noise(report["results"], noise),
                    "over_limit": over_limit(report["results"]),
                }
                if seeds == SEEDS
                else {}
            )
            members["instruction_set"] = report["environment"]["instruction_set"]
            store.add(name, **members, **summary(report))


def told(family: Family, model: Model) -> dict[str, Any]:
    """What every result says of its model."""
    return {"framework": family.name, "model": model.name, "precision": model.precision}


def paths(
    model: Model, traces: Path, run: str, seeds: tuple[int, ...]
) -> tuple[Path, Path, list[Path]]:
    """The traces of the reference, of a run, and of noise runs."""
    noise = [trace_path(traces, model.trace(f"noise{seed}")) for seed in seeds]
    reference = trace_path(traces, model.trace("reference"))
    return reference, trace_path(traces, model.trace(run)), noise


def calibrated(
    family: Family, model: Model, traces: Path, store: Store, scratch: Path
) -> dict[Key, float]:
    """The noise of every tensor, the largest of all runs; keeps the size of the file."""
    reference, _, noise = paths(model, traces, "reference", SEEDS)
    file = scratch / "tolerance.json"
    done = run_ttrace("calibrate", reference, *noise, "-o", file, timeout=600)
    assert done.returncode == MATCH, done.stdout + done.stderr
    tensors = json.loads(file.read_text(encoding="utf-8"))["tensors"]
    name = f"calibration/{family.name}/{model.name}"
    if name not in store:
        sizes = {"file_bytes": file.stat().st_size, "reference_bytes": reference.stat().st_size}
        store.add(name, **sizes, tensors=len(tensors), warnings=done.stderr.splitlines())
    file.unlink()
    return {key_of(one): max(map(number, one["noise"])) for one in tensors}
