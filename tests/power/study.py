"""Traces the grid and measures it; goes on where a study that was stopped has left off."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from power import detection, faulty, framework_rows, healthy, keys, results, rows
from power.runs import SEEDS, Family, Model
from power.store import Store
from power.training import train

PARTS = (healthy, faulty, detection, keys)
_NOISE_RUNS = [f"noise{seed}" for seed in SEEDS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("raw", type=Path, help="raw results, lines of JSON; kept between studies")
    parser.add_argument("--only", default="", help="families of this name (a part of it)")
    parser.add_argument("--write", action="store_true", help="only write what is known by now")
    parser.add_argument("--build", default="", help="the commit of `ttrace`, told with the results")
    given = parser.parse_args()
    store = Store(given.raw, given.build)
    families = [rows.family(), *framework_rows.families()]
    if not given.write:
        study([family for family in families if given.only in family.name], store)
    results.write(store, Path(__file__).parent, unfinished(families, store))


def study(families: Iterable[Family], store: Store) -> None:
    for family in families:
        missing = [still(family, model, store) for model in family.models]
        missing = [model for model in missing if pending(family, model, store)]
        for begin in range(0, len(missing), family.batch):
            with tempfile.TemporaryDirectory() as folder:
                measure(family, missing[begin : begin + family.batch], store, Path(folder))


def unfinished(families: Iterable[Family], store: Store) -> list[str]:
    """Runs of the grid that were not compared."""
    found = []
    for family in families:
        for model in family.models:
            one = still(family, model, store)
            wanted = {run.name for run in one.runs} - {*one.sampled, *one.emptied}
            found += [f"{family.name} {model.name} {run}" for run in sorted(wanted)]
    return found


def still(family: Family, model: Model, store: Store) -> Model:
    """The part of a model that has results to come."""

    def wanted(**part: Any) -> bool:
        none: dict[str, Any] = {"runs": (), "faults": (), "sampled": (), "emptied": {}}
        one = replace(model, **{**none, **part})
        names = {name for part in PARTS for name in part.names(family, one)}
        return any(name not in store for name in names - healthy.calibrations(family, one))

    sampled = tuple(name for name in model.sampled if wanted(sampled=(name,)))
    emptied = {name: n for name, n in model.emptied.items() if wanted(emptied={name: n})}
    runs = [run for run in model.runs if run.name in {*sampled, *emptied} or wanted(runs=(run,))]
    faults = [fault for fault in model.faults if wanted(faults=(fault,))]
    return replace(model, runs=tuple(runs), faults=tuple(faults), sampled=sampled, emptied=emptied)


def pending(family: Family, model: Model, store: Store) -> bool:
    return any(name not in store for part in PARTS for name in part.names(family, model))


def measure(family: Family, models: list[Model], store: Store, folder: Path) -> None:
    traces, scratch = folder / "traces", folder / "scratch"
    scratch.mkdir()
    begun = time.monotonic()
    failed = train(family, models, traces)
    for name, why in failed.items():
        print(f"{family.name}: {name} could not be trained: {why.splitlines()[-1]}", flush=True)
    _say(family, f"{len(models)} models trained", begun)
    for model in models:
        if any(model.trace(name) in failed for name in ("reference", *_NOISE_RUNS)):
            continue  # tried again by the next study
        begun = time.monotonic()
        healthy.compare_all(family, model, traces, failed, store, scratch)
        faulty.compare_all(family, model, traces, failed, store, scratch)
        _say(family, f"{model.name}: {len(model.runs)} runs compared", begun)
        if model.sampled or model.emptied:
            begun = time.monotonic()
            detection.detect(family, model, traces, store, scratch)
            keys.leave_out(family, model, traces, store, scratch)
            _say(family, f"{model.name}: faults put in", begun)


def _say(family: Family, what: str, begun: float) -> None:
    print(f"{family.name}: {what}, {time.monotonic() - begun:.0f} s", flush=True)


if __name__ == "__main__":
    main()
