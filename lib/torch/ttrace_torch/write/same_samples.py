"""Whether data-parallel ranks recorded the same samples under different micro-batch numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ttrace_torch.base.names import ROOT

# Bytes of one input; larger ones are not read for this.
_LARGEST = 1 << 24


def same_samples(files: Mapping[int, Path], parts: Mapping[int, Mapping[str, Any]]) -> str | None:
    """A sentence if two ranks got the same inputs in their first micro-batches, which have
    different numbers; None otherwise, and where the model's inputs were not recorded.

    files, parts: rank -> its file, and its part of the manifest.
    """
    seen: dict[tuple[Any, ...], tuple[int, int]] = {}
    numbers: set[int] = set()
    for rank in sorted(parts):
        inputs = _first_inputs(parts[rank])
        number = min((entry["microbatch"] for entry in inputs), default=None)
        # Ranks with one number are of one data-parallel rank: the first of them stands for all.
        if number is None or number in numbers:
            continue
        numbers.add(number)
        content = _content(files[rank], [e for e in inputs if e["microbatch"] == number])
        if content is None:
            continue
        if content in seen:
            other, first = seen[content]
            return (
                f"ranks {other} and {rank} got the same data, as micro-batches {first} and "
                f"{number}: where all data-parallel ranks are meant to get the same samples, say "
                "trace(dp_axis=()); otherwise each is to load its own"
            )
        seen[content] = rank, number
    return None


def _first_inputs(part: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The model's own inputs in the first recorded step."""
    found = [
        entry
        for entry in part["tensors"]
        if entry["kind"] == "input"
        and entry["name"].partition("[")[0] == ROOT
        and entry.get("microbatch") is not None
        and not entry.get("call")
    ]
    first = min((entry["step"] for entry in found), default=0)
    return [entry for entry in found if entry["step"] == first]


def _content(file: Path, inputs: list[Mapping[str, Any]]) -> tuple[Any, ...] | None:
    """Names, shapes and bytes of the inputs; None if one is too large or none varies."""
    found: list[tuple[Any, ...]] = []
    varies = False
    with h5py.File(file, "r") as opened:
        for entry in sorted(inputs, key=lambda one: str(one["name"])):
            path = f"step_{entry['step']:06d}/mb_{entry['microbatch']:04d}/input/{entry['name']}"
            dataset = opened[path]
            if dataset.nbytes > _LARGEST:
                return None
            values = np.asarray(dataset[()])
            varies = varies or values.tobytes() != values.ravel()[:1].tobytes() * values.size
            found.append((entry["name"], values.shape, values.tobytes()))
    return tuple(found) if varies else None
