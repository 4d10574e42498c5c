"""Runs that are wrong, each as it happens: what is found first, and how far its tensors are off."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

from support.reports import findings

from power.comparing import compare, label, over_limit, over_noise, summary
from power.healthy import calibrated, paths, told
from power.runs import SEEDS, Family, Model
from power.store import Store


def names(family: Family, model: Model) -> list[str]:
    return [_name(family, model, fault.run.name) for fault in model.faults]


def _name(family: Family, model: Model, run: str) -> str:
    return f"faulty/{family.name}/{model.name}/{run}"


def compare_all(
    family: Family, model: Model, traces: Path, failed: dict[str, str], store: Store, scratch: Path
) -> None:
    noise = calibrated(family, model, traces, store, scratch) if model.faults else {}
    for fault in model.faults:
        name = _name(family, model, fault.run.name)
        if name in store:
            continue
        members = {**told(family, model), "fault": fault.run.name}
        if why := failed.get(model.trace(fault.run.name)):
            store.add(name, **members, failed=why)
            continue
        report = compare(*paths(model, traces, fault.run.name, SEEDS), scratch)
        first = [finding["key"] for finding in findings(report)[:1]]
        wrong = [one for one in report["results"] if _is_one(one["key"], fault.wrong)]
        said = summary(report)
        store.add(
            name,
            **members,
            exit_code=said["exit_code"],
            answer=said["answer"],
            tensors_beyond=said["tensors_beyond"],
            first=[label(key) for key in first],
            as_expected=any(_is_one(key, fault.first) for key in first),
            histograms={
                "over_noise": over_noise(wrong, noise),
                "over_limit": over_limit(wrong),
            },
        )


def _is_one(key: dict, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(f"{key['kind']} {key['name']}", pattern) for pattern in patterns)
