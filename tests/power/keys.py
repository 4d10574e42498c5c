"""Every key that one side lacks must be named, and never pass for a match."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
from support.ttrace_cli import DIVERGED, INCONCLUSIVE, run_ttrace

from power.editing import Entry, copied, dataset_of, files_of, manifest_of, removed, without
from power.healthy import paths, told
from power.runs import Family, Model
from power.store import Store


def names(family: Family, model: Model) -> list[str]:
    return [f"keys/{family.name}/{model.name}/{run}" for run in model.emptied]


def leave_out(family: Family, model: Model, traces: Path, store: Store, scratch: Path) -> None:
    for run, every in model.emptied.items():
        name = f"keys/{family.name}/{model.name}/{run}"
        if name not in store:
            reference, trace, _ = paths(model, traces, run, ())
            found = Lack(reference, trace, scratch)
            store.add(
                name,
                **told(family, model),
                run=run,
                removed=found.each_key(every, of_reference=False),
                added=found.each_key(every, of_reference=True),
                shard_lost=found.each_shard(every),
                rank_lost=found.each_rank(),
            )


class Lack:
    """A healthy pair, of which something is taken and what `ttrace compare` says to it."""

    def __init__(self, reference: Path, run: Path, scratch: Path) -> None:
        self.reference, self.run, self.scratch = reference, run, scratch

    def each_key(self, every: int, of_reference: bool) -> dict[str, Any]:
        """Takes keys from the reference, so that they are extra, or from the run: missing."""
        some = re.compile(rf"\b[1-9][0-9]* {'extra' if of_reference else 'missing'}\b")

        def right(entry: Entry, exit_code: int, text: str) -> bool:
            counted = some.search(" ".join(text.split())) is not None
            return exit_code == DIVERGED and entry["name"] in text and counted

        short = self.reference if of_reference else self.run
        entries = manifest_of(short)["tensors"][::every]
        changes = [(entry, _without(entry)) for entry in entries]
        return self._tried(short, changes, right)

    def each_shard(self, every: int) -> dict[str, Any]:
        """Takes one rank's part of a tensor, of which the manifest still speaks."""
        entries = manifest_of(self.run)["tensors"][::every]
        changes = [(entry, _shard_of(entry)) for entry in entries]
        return self._tried(self.run, changes, lambda _, exit_code, __: exit_code == INCONCLUSIVE)

    def each_rank(self) -> dict[str, Any]:
        changes = [({"name": path.name}, _file(path.name)) for path in files_of(self.run)]
        if len(changes) == 1:
            return {"tried": 0, "wrong": []}
        return self._tried(self.run, changes, lambda _, exit_code, __: exit_code == INCONCLUSIVE)

    def _tried(
        self,
        short: Path,
        changes: list[tuple[Entry, Callable[[Path], None]]],
        right: Callable[[Entry, int, str], bool],
    ) -> dict[str, Any]:
        wrong = []
        for entry, change in changes:
            copy = copied(short, self.scratch / f"short{short.suffix}")
            change(copy)
            pair = (copy, self.run) if short == self.reference else (self.reference, copy)
            done = run_ttrace("compare", *pair, timeout=600)
            removed(copy)
            if not right(entry, done.returncode, done.stdout):
                said = (done.stdout or done.stderr)[:300]
                wrong.append({**entry, "exit_code": done.returncode, "said": said})
        return {"tried": len(changes), "wrong": wrong}


def _without(entry: Entry) -> Callable[[Path], None]:
    return lambda copy: without(copy, {dataset_of(entry)})


def _shard_of(entry: Entry) -> Callable[[Path], None]:
    """Takes the part of the last rank that has one."""

    def take(copy: Path) -> None:
        name = dataset_of(entry)
        for path in reversed(files_of(copy)):
            with h5py.File(path, "r+") as file:
                if name in file:
                    del file[name]
                    return

    return take


def _file(name: str) -> Callable[[Path], None]:
    return lambda copy: (copy / name).unlink()
