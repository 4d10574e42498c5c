"""Proposes layouts under which the tensors that the ranks recorded equal those of a reference.

Every shard is compared with cuts of the reference's whole tensor: which cuts have its shape, and
which of these its values. Declared placements are ignored, because they may be wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ttrace_torch.base.problems import patterns_of
from ttrace_torch.base.process import say
from ttrace_torch.errors import TraceError
from ttrace_torch.layout.mesh import Mesh
from ttrace_torch.write.hdf5 import read_manifest
from ttrace_torch.write.merge import rank_file, read_parts
from ttrace_torch.write.merge_run import require_one_run

# Elements of a whole tensor; of larger ones shapes alone are compared.
_MOST_ELEMENTS = 1 << 24
# A shard is the reference's if their distance is this share of its norm at most, and no other cut
# is nearer by an order of magnitude. This separates rounding to 16 bits from another shard.
_NEAR = 2e-2
_NEARER = 10.0
_FLOOR = 1e-5

# Kind -> (argument of Layout, whether it is a table over the names of parameters).
_FIELDS = {
    "input": ("input", False),
    "output": ("output", False),
    "grad_output": ("grad_output", False),
    "param": ("params", True),
    "param_grad": ("param_grads", True),
    "main_grad": ("main_grads", True),
}

# Kinds whose tensors may be terms of a sum.
_SUMS = ("output", "grad_output", "param_grad", "main_grad")

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Cut:
    """What one axis of the mesh does to a tensor.

    how: "shard", "zigzag", "segments", "partial", or "" where it is whole.
    """

    how: str = ""
    dim: int = 0
    parts: int = 1

    def applied(self, whole: Array, place: int, ranks: int) -> Array:
        """The elements of `whole` that the rank at `place` of `ranks` holds."""
        if self.how in ("", "partial"):
            return whole
        if self.how == "zigzag":
            chunks = np.split(whole, 2 * ranks, self.dim)
            return np.concatenate([chunks[place], chunks[2 * ranks - 1 - place]], self.dim)
        own = []
        for segment in np.split(whole, self.parts, self.dim):
            size = -(-segment.shape[self.dim] // ranks)
            before = (slice(None),) * self.dim
            taken = (*before, slice(place * size, (place + 1) * size))
            own.append(segment[taken])
        return np.concatenate(own, self.dim)

    def shape(self, whole: Sequence[int], place: int, ranks: int) -> tuple[int, ...] | None:
        """The shape of what that rank holds; None if the cut does not fit the extent."""
        if self.how in ("", "partial"):
            return tuple(whole)
        extent = whole[self.dim]
        if self.how == "zigzag":
            if extent % (2 * ranks):
                return None
            own = extent // ranks
        else:
            if extent % self.parts or (self.parts > 1 and extent % (self.parts * ranks)):
                return None
            own = min(max(extent - place * -(-extent // ranks), 0), -(-extent // ranks))
        return (*whole[: self.dim], own, *whole[self.dim + 1 :])

    def text(self, extent: int, ranks: int) -> str:
        """As the user writes it; `extent` is that of the whole tensor."""
        if self.how == "partial":
            return 'tt.Partial("sum")'
        if self.how == "zigzag":
            return f"tt.Zigzag({self.dim})"
        if self.parts > 1:
            return f"tt.Segments({self.dim}, {[extent // self.parts] * self.parts})"
        return f"tt.Shard({self.dim}{'' if extent % ranks == 0 else f', size={extent}'})"


Cuts = tuple[Cut, ...]


def suggest_layouts(reference: str | Path, run: str | Path) -> list[str]:
    """Lines for `layouts=[...]` for the tensors whose declared layout does not fit a reference.

    reference: a trace of one process. run: the folder of the run, whose ranks have all closed.
    A line ends in a comment where several placements fit alike, where shapes alone tell, or where
    none fits. Throws TraceError and OSError for traces that cannot be read.
    """
    whole = json.loads(read_manifest(Path(reference)))
    parts = read_parts(Path(run))
    require_one_run(parts)
    files = {rank: Path(run) / rank_file(rank) for rank in parts}
    meshes = {
        name: Mesh.from_json(value)
        for part in parts.values()
        for name, value in part["meshes"].items()
    }
    known = {_key(entry): entry for entry in whole["tensors"]}
    held: dict[Any, dict[int, Mapping[str, Any]]] = {}
    for rank, part in parts.items():
        for entry in part["tensors"]:
            if entry["kind"] in _FIELDS and _key(entry) in known:
                held.setdefault(_key(entry), {})[rank] = entry
    lines: dict[str, dict[str, dict[str, str]]] = {}
    done: set[tuple[str, str]] = set()
    with h5py.File(reference, "r") as of_reference:
        opened = {rank: h5py.File(file, "r") for rank, file in files.items()}
        try:
            for key, entries in held.items():
                entry = next(iter(entries.values()))
                if (entry["kind"], entry["name"]) in done:
                    continue
                done.add((entry["kind"], entry["name"]))
                mesh = meshes[entry.get("mesh", "")]
                shards = {rank: (opened[rank], one) for rank, one in entries.items()}
                said = _suggested((of_reference, known[key]), shards, mesh)
                if said is not None:
                    _note(entry, said, lines)
        finally:
            for file in opened.values():
                file.close()
    return _written(lines, [str(entry["name"]) for entry in whole.get("modules", [])])


def _suggested(
    reference: tuple[Any, Mapping[str, Any]],
    shards: Mapping[int, tuple[Any, Mapping[str, Any]]],
    mesh: Mesh,
) -> str | None:
    """What to say of one tensor, None if its declared layout fits."""
    file, entry = reference
    shape = list(entry["shape"])
    by_values = int(np.prod(shape)) <= _MOST_ELEMENTS
    held = {rank: tuple(_stored(*shard).shape) for rank, shard in shards.items()}
    axes = [
        axis
        for axis, size in mesh.axes.items()
        if size > 1 and len({mesh.coordinate(rank)[axis] for rank in held}) > 1
    ]
    terms = entry["kind"] in _SUMS
    shaped = [
        cuts
        for cuts in _hypotheses(axes, shape, terms)
        if _has_shapes(cuts, axes, shape, held, mesh)
    ]
    found = list(shaped)
    if by_values:
        whole = _values(file, entry)
        own = {rank: _values(*shard) for rank, shard in shards.items()}
        errors = {cuts: _error(cuts, axes, whole, own, mesh) for cuts in shaped}
        best = min(errors.values(), default=np.inf)
        limit = min(_NEAR, max(_NEARER * best, _FLOOR))
        found = [cuts for cuts, error in errors.items() if error <= limit]
    some = next(iter(shards.values()))[1]
    declared = set(some.get("placements", {}))
    texts = [_text(cuts, axes, shape, mesh) for cuts in found or shaped]
    # Values that no cut gives are those of a bug, under the layout that has their shape.
    if any(_declared_is(cuts, axes, some) for cuts in found or shaped) and declared <= set(axes):
        return None
    if not texts:
        return "{}  # no cut gives these shapes"
    if not found:
        return f"{texts[0]}  # by its shape alone, no cut has the reference's values"
    note = f"  # or {', '.join(texts[1:3])}: they fit alike" if len(texts) > 1 else ""
    if not by_values:
        note = note or "  # by its shape alone"
    return texts[0] + note


def _hypotheses(axes: Sequence[str], shape: Sequence[int], terms: bool) -> Iterator[Cuts]:
    """Every combination of cuts, the simplest first; with sums if `terms`."""
    dims = range(len(shape))
    each = [Cut(), *(Cut("shard", dim) for dim in dims), *([Cut("partial")] if terms else [])]
    each += [Cut("segments", dim, parts) for parts in (2, 3) for dim in dims]
    each += [Cut("zigzag", dim) for dim in dims]
    yield from sorted(product(each, repeat=len(axes)), key=_rarity)


def _rarity(cuts: Cuts) -> tuple[int, int]:
    """Orders combinations by how many of their cuts are uncommon, and how many there are."""
    common = ("", "shard", "partial")
    return sum(cut.how not in common for cut in cuts), sum(cut.how != "" for cut in cuts)


def _has_shapes(
    cuts: Cuts,
    axes: Sequence[str],
    whole: Sequence[int],
    own: Mapping[int, tuple[int, ...]],
    mesh: Mesh,
) -> bool:
    """Whether every rank holds the shape that `cuts` leave it."""
    for rank, held in own.items():
        where, shape = mesh.coordinate(rank), tuple(whole)
        for axis, cut in zip(axes, cuts):
            left = cut.shape(shape, where[axis], mesh.axes[axis])
            if left is None:
                return False
            shape = left
        if shape != held:
            return False
    return True


def _error(
    cuts: Cuts, axes: Sequence[str], whole: Array, own: Mapping[int, Array], mesh: Mesh
) -> float:
    """‖recorded - expected‖ / ‖expected‖ over all ranks; terms of a sum are added up."""
    summed = {axis for axis, cut in zip(axes, cuts) if cut.how == "partial"}
    totals: dict[tuple[tuple[str, int], ...], tuple[Array, int]] = {}
    for rank, value in own.items():
        where = tuple((a, n) for a, n in mesh.coordinate(rank).items() if a not in summed)
        earlier = totals.get(where)
        totals[where] = (value if earlier is None else earlier[0] + value, rank)
    error = norm = 0.0
    for value, rank in totals.values():
        expected, place = whole, mesh.coordinate(rank)
        for axis, cut in zip(axes, cuts):
            expected = cut.applied(expected, place[axis], mesh.axes[axis])
        error += float(np.sum(np.square(value - expected)))
        norm += float(np.sum(np.square(expected)))
    return float(np.sqrt(error / norm)) if norm > 0 else (0.0 if error == 0 else np.inf)


def _declared_is(cuts: Cuts, axes: Sequence[str], entry: Mapping[str, Any]) -> bool:
    """Whether the placements of a manifest's entry are `cuts`."""
    given = entry.get("placements", {})
    for axis, cut in zip(axes, cuts):
        said = given.get(axis, {})
        if cut.how in ("", "partial"):
            if set(said) != ({"partial"} if cut.how else set()):
                return False
            continue
        if cut.how not in said or (cut.how != "segments" and said[cut.how] != cut.dim):
            return False
        if cut.how == "shard" and ("segments" in said or "stride" in said):
            return False
    return True


def _text(cuts: Cuts, axes: Sequence[str], shape: Sequence[int], mesh: Mesh) -> str:
    said = {
        axis: cut.text(shape[cut.dim] if shape else 1, mesh.axes[axis])
        for axis, cut in zip(axes, cuts)
        if cut.how
    }
    return "{" + ", ".join(f'"{axis}": {text}' for axis, text in said.items()) + "}"


def _note(entry: Mapping[str, Any], said: str, lines: dict[str, dict[str, dict[str, str]]]) -> None:
    """Adds what is said of a tensor: module -> argument -> name of the parameter or value -> it."""
    field, is_table = _FIELDS[entry["kind"]]
    name = str(entry["name"])
    if is_table:
        module, _, local = name.rpartition(".")
        lines.setdefault(module or "(model)", {}).setdefault(field, {})[local] = said
    else:
        module, bracket, rest = name.partition("[")
        lines.setdefault(module, {}).setdefault(field, {})[bracket + rest] = said


def _written(lines: Mapping[str, Mapping[str, Mapping[str, str]]], known: list[str]) -> list[str]:
    """One line for all modules of a pattern that are laid out alike."""
    alike: dict[tuple[str, str], list[str]] = {}
    for module, fields in lines.items():
        texts, notes = [], []
        for field, values in fields.items():
            if field in ("param_grads", "main_grads"):
                # They default to the parameter's.
                params = fields.get("params", {})
                values = {n: said for n, said in values.items() if params.get(n) != said}
            if field == "grad_output":
                # It defaults to the output's.
                outputs = fields.get("output", {})
                values = {n: said for n, said in values.items() if outputs.get(n) != said}
            if not values:
                continue
            plain = {}
            for name, said in values.items():
                plain[name], _, note = said.partition("  # ")
                if note:
                    notes.append(f"{field}{' ' + name if name else ''}: {note}")
            texts.append(f"{field}={_argument(field, plain)}")
        alike.setdefault((", ".join(texts), "; ".join(dict.fromkeys(notes))), []).append(module)
    found = []
    for (text, note), modules in alike.items():
        for pattern in patterns_of(modules, known):
            found.append(f'tt.Layout("{pattern}", {text}),{"  # " + note if note else ""}')
    return found


def _argument(field: str, values: Mapping[str, str]) -> str:
    if field in ("input", "output", "grad_output"):
        # One dictionary holds for all values with that extent; others of a call are few.
        return values.get("", next(iter(values.values())))
    return "{" + ", ".join(f'"{name}": {said}' for name, said in values.items()) + "}"


def _key(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    members = ("step", "kind", "name")
    return (*(entry[m] for m in members), entry.get("microbatch"), entry.get("call", 0))


def _stored(file: Any, entry: Mapping[str, Any]) -> Any:
    path = f"step_{entry['step']:06d}"
    if entry.get("microbatch") is not None:
        path += f"/mb_{entry['microbatch']:04d}"
    if entry.get("call"):
        path += f"/call_{entry['call']:04d}"
    path += f"/{entry['kind']}/{entry['name']}"
    if path not in file:
        raise TraceError(f"{file.filename}: /{path} is not in it")
    return file[path]


def _values(file: Any, entry: Mapping[str, Any]) -> Array:
    """The values in binary64, by their recorded scale."""
    stored = np.asarray(_stored(file, entry)[()], dtype=np.float64)
    return stored * float(entry.get("scale", 1.0))


def tell_layouts(reference: str | Path, run: str | Path) -> list[str]:
    """Prints and returns the lines of `suggest_layouts`, or prints why not. Never throws."""
    try:
        lines = suggest_layouts(reference, run)
    except Exception as error:
        say(f"no layouts are suggested: {error}")
        return []
    if lines:
        say("these layouts fit the reference:")
        for line in ["layouts=[", *(f"    {line}" for line in lines), "]"]:
            say(line)
    else:
        say("the layouts fit the reference; nothing to suggest")
    return lines
