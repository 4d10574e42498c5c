"""Faults planted into the files of a trace, as a bug would have left them there."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

import h5py
import numpy as np
from power.editing import bfloat16, dataset_of, files_of, manifest_of, without

FAULT = re.compile(r"(\w+?)(?:=([\d.]+))?@(?:(\w+)/)?(.+)")


def plant(trace: Path, fault: str) -> None:
    """A fault is one of `changed`, as in "scaled=1.01@fc.weight" or "nan@main_grad/fc.weight", or
    "key_missing@fc.weight", which takes the tensor out."""
    found = FAULT.fullmatch(fault)
    assert found, fault
    what, number, kind, name = found.groups()
    entries = [
        entry
        for entry in manifest_of(trace)["tensors"]
        if entry["name"] == name and kind in (None, entry["kind"])
    ]
    assert entries, f"{fault}: there is no such tensor"
    if what == "key_missing":
        return without(trace, {dataset_of(entry) for entry in entries})
    with ExitStack() as stack:
        files = [stack.enter_context(h5py.File(path, "r+")) for path in files_of(trace)]
        for file in files:
            file.pop("ranges", None)  # it would no longer be of the file
        for dataset in map(dataset_of, entries):
            stored = [file[dataset] for file in files if dataset in file]
            parts = changed(what, float(number) if number else None, [one[()] for one in stored])
            for one, part in zip(stored, parts, strict=True):
                one[...] = part
    return None


def changed(what: str, number: float | None, parts: list[np.ndarray]) -> list[np.ndarray]:
    """What the ranks have of a tensor, with the fault. Equal parts are replicas, and stay equal."""
    if what == "scaled":
        return [part * (number or 2.0) for part in parts]
    if what == "rounded_to_bf16":
        return [bfloat16(part) for part in parts]
    if what == "shuffled":  # numbers that have nothing to do with those that should be there
        return [np.random.default_rng(0).permuted(part) for part in parts]
    if what == "shards_swapped":  # the first two that differ
        first = parts[0]
        others = [one for one in parts if one.shape == first.shape and (one != first).any()]
        if not others:
            raise ValueError("there are no two shards of equal shape")
        other = others[0]
        swapped = {first.tobytes(): other, other.tobytes(): first}
        return [swapped.get(part.tobytes(), part) for part in parts]
    # Of the part of one rank, and its replicas.
    whose = parts[-1] if what == "part_dropped" else parts[0]
    edited = whose.copy()
    if what == "part_dropped":
        edited[...] = 0
    elif what == "row_zeroed":
        edited[int(number) if number is not None else len(edited) // 2] = 0
    elif what == "nan":
        edited[tuple(extent // 2 for extent in edited.shape)] = np.nan
    else:
        raise ValueError(f"there is no fault {what}")
    return [edited if np.array_equal(part, whose) else part for part in parts]
