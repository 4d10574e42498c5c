"""Reads and merges traces from the specification alone, without any code of the collector.

Values come through h5py's own conversion, so they also check the HDF5 types.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import h5py
import jsonschema
import numpy as np

SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"
SCHEMA = json.loads((SCHEMAS / "manifest.schema.json").read_text(encoding="utf-8"))


def dataset_path(entry):
    """Path of an entry's dataset, as the specification gives it."""
    path = f"/step_{entry['step']:06d}"
    if entry.get("microbatch") is not None:
        path += f"/mb_{entry['microbatch']:04d}"
    if entry.get("call", 0):
        path += f"/call_{entry['call']:04d}"
    if entry.get("copy", 0):
        path += f"/copy_{entry['copy']:04d}"
    return f"{path}/{entry['kind']}/{entry['name']}"


class Trace:
    """A trace in either form: manifest, rank files, and the logical tensors."""

    def __init__(self, path):
        self.path = Path(path)
        if self.path.is_dir():
            self.manifest = json.loads((self.path / "manifest.json").read_text(encoding="utf-8"))
        else:
            with h5py.File(self.path, "r") as file:
                self.manifest = json.loads(file["manifest"][()])
        jsonschema.validate(self.manifest, SCHEMA, cls=jsonschema.Draft202012Validator)
        self.axes = [(a["name"], a["size"]) for a in self.manifest["meshes"][""]["axes"]]
        keys = [self.key(entry) for entry in self.manifest["tensors"]]
        assert len(keys) == len(set(keys)), "a key stands twice"
        self.entries = dict(zip(keys, self.manifest["tensors"], strict=False))
        self.modules = {entry["name"]: entry for entry in self.manifest.get("modules", [])}

    @staticmethod
    def key(entry):
        return (
            entry["kind"],
            entry["name"],
            entry["step"],
            entry.get("microbatch"),
            entry.get("call", 0),
        )

    def entry(self, kind, name, step=0, microbatch=None, call=0):
        return self.entries[kind, name, step, microbatch, call]

    def names(self, kind):
        """Names of a kind, in the order of the manifest, once each."""
        return list(dict.fromkeys(e["name"] for e in self.manifest["tensors"] if e["kind"] == kind))

    def coordinates(self):
        """rank -> coordinates, row-major."""
        ranges = [range(size) for _, size in self.axes]
        names = [name for name, _ in self.axes]
        return [dict(zip(names, where, strict=False)) for where in itertools.product(*ranges)]

    def file(self, rank):
        return self.path / f"rank_{rank:05d}.h5" if self.path.is_dir() else self.path

    def local(self, entry, rank):
        """What a rank stored, widened to float64 where it is floating-point."""
        with h5py.File(self.file(rank), "r") as file:
            dataset = file[dataset_path(entry)]
            assert dataset.attrs["ttrace_dtype"].decode() == entry["dtype"]
            array = dataset[()]
        return array.astype(np.float64) if entry["dtype"].startswith(("f", "bf")) else array

    def value(self, kind, name, step=0, microbatch=None, call=0):
        """The logical tensor, merged from the shards of all ranks that hold it."""
        return self.merged(self.entry(kind, name, step, microbatch, call))

    def merged(self, entry):
        held = entry.get("held_at", {})
        placements = entry.get("placements", {})
        parts = {}
        for rank, where in enumerate(self.coordinates()):
            kept = all(where[axis] in coords for axis, coords in held.items())
            for axis, placement in placements.items():
                if isinstance(placement, dict) and "only" in placement:
                    kept &= where[axis] == placement["only"]
            if kept:
                parts[tuple(where.values())] = self.local(entry, rank)
        # Innermost axis first: its cut was the last one made, its parts are joined first.
        for position in reversed(range(len(self.axes))):
            placement = placements.get(self.axes[position][0], "replicate")
            groups = {}
            for where in sorted(parts):
                groups.setdefault(where[:position], []).append(parts[where])
            parts = {where: _joined(group, placement) for where, group in groups.items()}
        (whole,) = parts.values()
        assert list(whole.shape) == entry["shape"], (entry, whole.shape)
        return whole

    def check_complete(self):
        """Every dataset belongs to an entry and every entry's shape is what was stored."""
        known = {dataset_path(entry) for entry in self.entries.values()} | {"/manifest"}
        for rank in range(len(self.coordinates())):
            found = []
            with h5py.File(self.file(rank), "r") as file:
                assert file.attrs["ttrace_rank"] == rank
                file.visititems(
                    lambda name, item, found=found: (
                        found.append("/" + name) if isinstance(item, h5py.Dataset) else None
                    )
                )
            assert set(found) <= known
        for entry in self.entries.values():
            self.merged(entry)


def _joined(group, placement):
    if placement == "replicate" or "only" in placement:
        for other in group[1:]:
            np.testing.assert_array_equal(group[0], other)
        return group[0]
    if "shard" in placement:
        return np.concatenate(group, axis=placement["shard"])
    reduction = {"sum": np.sum, "mean": np.mean, "max": np.max}[placement["partial"]]
    return reduction(np.stack(group), axis=0)
