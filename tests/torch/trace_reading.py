"""Reads and merges traces from the specification alone, without any code of the collector.

Values come through h5py's own conversion, so they also check the HDF5 types.
"""

from __future__ import annotations

import json
import os
from functools import cached_property
from pathlib import Path

import h5py
import jsonschema_rs
import numpy as np
from element_numbers import element_numbers, holds, ranks_of

SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"
SCHEMA = json.loads((SCHEMAS / "manifest.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema_rs.Draft202012Validator(SCHEMA)


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


def _read(file, path):
    """The elements of a dataset and the type that it says; None if there is none. What h5py's
    objects do, without these: making them takes longer than reading a tensor."""
    try:
        dataset = h5py.h5d.open(file.id, path.encode())
    except KeyError:
        return None
    array = np.empty(dataset.shape, dataset.dtype)
    if array.size:
        dataset.read(h5py.h5s.ALL, h5py.h5s.ALL, array)
    attribute = h5py.h5a.open(dataset, b"ttrace_dtype")
    dtype = np.empty(attribute.shape, attribute.dtype)
    attribute.read(dtype)
    return array, dtype[()].decode()


class Trace:
    """A trace in either form: manifest, rank files, and the logical tensors."""

    def __init__(self, path):
        self.path = Path(path)
        if self.path.is_dir():
            self.manifest = json.loads((self.path / "manifest.json").read_text(encoding="utf-8"))
        else:
            with h5py.File(self.path, "r") as file:
                self.manifest = json.loads(file["manifest"][()])
        VALIDATOR.validate(self.manifest)
        keys = [self.key(entry) for entry in self.manifest["tensors"]]
        assert len(keys) == len(set(keys)), "a key stands twice"
        self.entries = dict(zip(keys, self.manifest["tensors"], strict=False))
        self.modules = {entry["name"]: entry for entry in self.manifest.get("modules", [])}
        self._files = {}  # rank -> path
        self._opened = {}

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

    def mesh(self, entry):
        """The mesh that the entry's placements refer to."""
        return self.manifest["meshes"][entry.get("mesh", "")]

    @cached_property
    def places(self):
        """Name of a mesh -> rank -> coordinates."""
        return {name: ranks_of(mesh) for name, mesh in self.manifest["meshes"].items()}

    def ranks(self):
        """The ranks of all meshes."""
        return sorted({rank for ranks in self.places.values() for rank in ranks})

    def file(self, rank):
        return self.path / f"rank_{rank:05d}.h5" if self.path.is_dir() else self.path

    def opened(self, rank):
        """The rank's file in memory, as it is now: opening takes longer than reading a tensor."""
        return self._now(rank)[1]

    def _now(self, rank):
        """The state that the rank's file is in, the file in memory, and what was read of it."""
        if rank not in self._files:
            self._files[rank] = str(self.file(rank))
        stat = os.stat(self._files[rank])
        now = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        if self._opened.get(rank, ((),))[0] != now:
            content = self.file(rank).read_bytes()
            self._opened[rank] = now, h5py.File(h5py.h5f.open_file_image(content)), {}
        return self._opened[rank]

    def local(self, entry, rank):
        """What a rank stored, widened to float64 where it is floating-point; None for nothing."""
        _, file, read = self._now(rank)
        path = dataset_path(entry)
        if path not in read:
            read[path] = _read(file, path)
        if read[path] is None:
            return None
        array, dtype = read[path]
        assert dtype == entry["dtype"]
        return array.astype(np.float64) if dtype.startswith(("f", "bf")) else array.copy()

    def value(self, kind, name, step=0, microbatch=None, call=0):
        """The logical tensor, merged from the shards of all ranks that hold it."""
        return self.merged(self.entry(kind, name, step, microbatch, call))

    def merged(self, entry):
        mesh, placements = self.mesh(entry), entry.get("placements", {})
        partial = {a: p["partial"] for a, p in placements.items() if "partial" in p}
        axes = [axis["name"] for axis in mesh["axes"] if axis["name"] in partial]
        size = int(np.prod(entry["shape"], dtype=np.int64))
        terms = {}
        for rank, where in self.places[entry.get("mesh", "")].items():
            if not holds(entry, where):
                continue
            numbers = element_numbers(entry, mesh, where, self.rows(entry, rank))
            local = self.local(entry, rank)
            if local is None:
                assert numbers.size == 0, (entry, rank)
                continue
            assert local.shape == numbers.shape, (entry, rank, local.shape, numbers.shape)
            term = terms.setdefault(tuple(where[axis] for axis in axes), {})
            whole = term.setdefault("value", np.zeros(size, local.dtype))
            known = term.setdefault("known", np.zeros(size, bool))
            kept = numbers >= 0
            numbers, local = numbers[kept], local[kept]
            # Copies are expected to be equal bit by bit.
            seen = known[numbers]
            if seen.any():
                one, other = whole[numbers][seen], local[seen]
                if one.tobytes() != other.tobytes():
                    np.testing.assert_array_equal(one, other)
            whole[numbers], known[numbers] = local, True
        assert size == 0 or terms, entry
        assert all(term["known"].all() for term in terms.values()), (entry, "has gaps")
        values = {place: term["value"] for place, term in terms.items()}
        for axis in reversed(axes):
            groups = {}
            for place in sorted(values):
                groups.setdefault(place[:-1], []).append(values[place])
            reduce = {"sum": np.sum, "mean": np.mean, "max": np.max}[partial[axis]]
            values = {place: reduce(np.stack(group), axis=0) for place, group in groups.items()}
        (whole,) = values.values() if size else [np.zeros(0)]
        return whole.reshape(entry["shape"])

    def rows(self, entry, rank):
        """Index tensor's name -> the rank's part of it, for the indices that the entry names."""
        found = {}
        for placement in entry.get("placements", {}).values():
            if "rows" in placement:
                name = placement["rows"]["index"]
                key = ("index", name, entry["step"], entry.get("microbatch"), entry.get("call", 0))
                part = self.local(self.entries[key], rank)
                found[name] = np.zeros(0, np.int64) if part is None else part
                whole = self.merged(self.entries[key])
                if placement["rows"].get("labels"):
                    found[name] = np.searchsorted(np.sort(whole), found[name])
        return found

    def check_complete(self):
        """Every dataset belongs to an entry and every entry's shape is what was stored."""
        known = {dataset_path(entry) for entry in self.entries.values()}
        known |= {"/manifest", "/ranges"}
        for rank in self.ranks():
            found = set()

            def keep(name, info, found=found):
                if info.type == h5py.h5o.TYPE_DATASET:
                    found.add("/" + name.decode())

            file = self.opened(rank)
            assert file.attrs["ttrace_rank"] == rank
            h5py.h5o.visit(file.id, keep, info=True)
            assert found and found <= known
        for entry in self.entries.values():
            self.merged(entry)
