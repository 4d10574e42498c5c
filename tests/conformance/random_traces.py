"""Random traces with what a comparison must find in them. numpy cuts the tensors into shards, as
schemas/trace-v2.md defines the placements.

All values are multiples of 1/256 below 2^14, so that sums of terms are exact in float32.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field
from pathlib import Path

import h5py
import numpy as np

from conformance.numpy_merge import dataset_path

Held = dict[int, np.ndarray]  # by rank

MESHES = {
    "": {"axes": [{"name": "dp", "size": 2}, {"name": "tp", "size": 2}]},
    "expert": {
        "axes": [{"name": "edp", "size": 2}, {"name": "ep", "size": 2}],
        "ranks": [0, 2, 1, 3],
    },
    "line": {"axes": [{"name": "world", "size": 4}], "ranks": [3, 2, 1, 0]},
    "cube": {"axes": [{"name": name, "size": 2} for name in ("pp", "cp", "mp")]},
}
RANKS = 8


@dataclass
class Layout:
    mesh: str
    placements: dict[str, object]
    held_at: dict[str, list[int]]

    def entry(self) -> dict:
        members = {"mesh": self.mesh, "placements": self.placements, "held_at": self.held_at}
        return {name: value for name, value in members.items() if value}


@dataclass
class RankValues:
    """What one rank holds of a tensor."""

    rank: int
    values: np.ndarray
    copies: tuple[int, ...]  # the rank's coordinates on the axes that replicate: orders replicas
    where: tuple  # the term of the sum, and the elements' numbers in the tensor: equal for replicas


@dataclass
class Expected:
    outcome: str
    difference_norm: float = 0.0
    reference_norm: float = 0.0
    largest: float = 0.0
    classes: list[list[int]] | None = None  # where replicas differ: the ranks that agree, by class


@dataclass
class RandomTrace:
    reference: list[tuple[dict, np.ndarray]] = field(default_factory=list)
    candidate: list[tuple[dict, Held]] = field(default_factory=list)
    expected: dict[str, Expected] = field(default_factory=dict)  # by name


class Maker:
    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def below(self, limit: int) -> int:
        return int(self.random.integers(limit))

    def chance(self, one_in: int) -> bool:
        return self.below(one_in) == 0

    def values(self, shape: tuple[int, ...]) -> np.ndarray:
        return self.random.integers(-(2**18), 2**18, shape) / 256

    def shape(self) -> tuple[int, ...]:
        return tuple(1 + self.below(9) for _ in range(1 + self.below(3)))

    def cuts(self, extent: int, parts: int) -> list[int]:
        inner = sorted(self.below(extent + 1) for _ in range(parts - 1))
        return [int(n) for n in np.diff([0, *inner, extent])]

    def placement(self, shape: tuple[int, ...], coordinates: int) -> object:
        d = self.below(len(shape))
        how = self.below(9)
        if how == 0:
            return {"shard": d}
        if how == 1:
            return {"shard": d, "sizes": self.cuts(shape[d], coordinates)}
        if how == 2:
            return {"shard": d, "order": "zigzag"}
        if how == 3:
            segments = [n for n in self.cuts(shape[d], 2) if n > 0]
            return {"shard": d, "segments": segments}
        if how == 4:
            return {"shard": d, "stride": 1 + self.below(3)}
        if how == 5:
            return {"partial": "sum"}
        if how == 6:
            return {"boxes": self.boxes(shape, coordinates, d)}
        return "replicate"

    def boxes(self, shape: tuple[int, ...], coordinates: int, d: int) -> list:
        boxes, start = [], 0
        for size in self.cuts(shape[d], coordinates):
            offset, extent = [0] * len(shape), list(shape)
            offset[d], extent[d] = start, size
            boxes.append([offset, extent])
            start += size
        return boxes

    def layout(self, shape: tuple[int, ...]) -> Layout:
        mesh = list(MESHES)[self.below(len(MESHES))]
        placements: dict[str, object] = {}
        held_at: dict[str, list[int]] = {}
        flat = False
        local = shape
        for axis in MESHES[mesh]["axes"]:
            size = axis["size"]
            if self.chance(6):
                held_at[axis["name"]] = sorted(
                    int(k) for k in self.random.permutation(size)[: 1 + self.below(size)]
                )
            coordinates = len(held_at.get(axis["name"], range(size)))
            if axis["name"] not in held_at and self.chance(12):
                placements[axis["name"]] = {"only": self.below(size)}
                continue
            cut = bool(placements) and any(p != "replicate" for p in placements.values())
            if not flat and not cut and self.chance(6):
                flat = True
                ranges = np.cumsum([0, *self.cuts(int(np.prod(local)), coordinates)])
                pairs = itertools.pairwise(int(n) for n in ranges)
                placements[axis["name"]] = {"flat": [list(pair) for pair in pairs]}
                continue
            if cut or flat:  # a second cut of uneven shards would need sizes for each
                placements[axis["name"]] = "replicate"
                continue
            placements[axis["name"]] = self.placement(local, coordinates)
        return Layout(mesh, placements, held_at)


def chunks(length: int, parts: int) -> list[range]:
    """The index ranges of torch.chunk, with empty ones at the end if it gives fewer than
    `parts`."""
    step = -(-length // parts)
    return [range(min(i * step, length), min((i + 1) * step, length)) for i in range(parts)]


def rows_of(placement: dict, length: int, at: int, parts: int) -> list[int]:
    if placement.get("order") == "zigzag":
        halves = chunks(length, 2 * parts)
        return [*halves[at], *halves[2 * parts - 1 - at]]
    if "segments" in placement or "stride" in placement:
        outer = (
            [range(s, s + n) for s, n in zip(starts(placement["segments"]), placement["segments"],
                                             strict=True)]
            if "segments" in placement
            else chunks(length, placement["stride"])
        )  # fmt: skip
        return [part[i] for part in outer for i in chunks(len(part), parts)[at]]
    if "sizes" in placement:
        start = sum(placement["sizes"][:at])
        return list(range(start, start + placement["sizes"][at]))
    return list(chunks(length, parts)[at])


def starts(sizes: list[int]) -> list[int]:
    return [0, *itertools.accumulate(sizes)][: len(sizes)]


def cut(values: np.ndarray, layout: Layout, maker: Maker) -> list[RankValues]:
    """What every rank holds. The terms of a partial sum are random and add up to the values."""
    mesh = MESHES[layout.mesh]
    axes = mesh["axes"]
    order = mesh.get("ranks", list(range(int(np.prod([axis["size"] for axis in axes])))))
    held = [
        [placement["only"]]
        if isinstance(placement := layout.placements.get(axis["name"], "replicate"), dict)
        and "only" in placement
        else layout.held_at.get(axis["name"], list(range(axis["size"])))
        for axis in axes
    ]
    reduced = [
        len(coordinates)
        for axis, coordinates in zip(axes, held, strict=True)
        if "partial" in layout.placements.get(axis["name"], "replicate")
    ]
    terms = [values]
    if reduced:
        terms = [maker.values(values.shape) for _ in range(reduced[0] - 1)]
        terms.append(values - sum(terms, np.zeros(values.shape)))
    shards = []
    for position in itertools.product(*(range(len(coordinates)) for coordinates in held)):
        at_of = {axis["name"]: at for axis, at in zip(axes, position, strict=True)}
        parts_of = {axis["name"]: len(c) for axis, c in zip(axes, held, strict=True)}
        term, flat, copies = 0, None, []
        kept = np.arange(values.size).reshape(values.shape)
        for axis in axes:
            placement = layout.placements.get(axis["name"], "replicate")
            at, parts = at_of[axis["name"]], parts_of[axis["name"]]
            if placement == "replicate":
                copies.append(at)
            elif "partial" in placement:
                term = at
            elif "shard" in placement:
                rows = rows_of(placement, kept.shape[placement["shard"]], at, parts)
                kept = np.take(kept, np.array(rows, dtype=int), axis=placement["shard"])
            elif "boxes" in placement:
                offset, extent = placement["boxes"][at]
                kept = kept[tuple(slice(o, o + e) for o, e in zip(offset, extent, strict=True))]
            elif "flat" in placement:
                flat = slice(*placement["flat"][at])
        if flat is not None:
            kept = kept.ravel()[flat]
        linear = 0
        for axis, at, coordinates in zip(axes, position, held, strict=True):
            linear = linear * axis["size"] + coordinates[at]
        local = terms[term].ravel()[kept]
        shards.append(RankValues(order[linear], local, tuple(copies), (term, *kept.ravel())))
    return shards


def spoil_a_copy(shards: list[RankValues], maker: Maker) -> list[list[int]] | None:
    """Adds a large number to one element of one replica. Returns the classes of ranks that then
    agree with each other; None if no rank has a replica."""
    groups: dict[tuple, list[RankValues]] = {}
    for shard in shards:
        if shard.values.size:
            groups.setdefault(shard.where, []).append(shard)
    several = [group for group in groups.values() if len(group) > 1]
    if not several:
        return None
    group = several[maker.below(len(several))]
    group.sort(key=lambda shard: shard.copies)
    spoiled = group[1 + maker.below(len(group) - 1)]  # not the first, which is compared
    spoiled.values = spoiled.values.copy()
    spoiled.values.flat[maker.below(spoiled.values.size)] += 4096
    return [
        sorted(shard.rank for shard in group if shard is not spoiled),
        [spoiled.rank],
    ]


def norm(values: np.ndarray) -> float:
    return float(np.sqrt(np.sum(np.square(values, dtype=np.longdouble))))


def random_trace(seed: int, tensors: int = 8) -> RandomTrace:
    maker = Maker(seed)
    made = RandomTrace()
    for number in range(tensors):
        name = f"t{number}"
        shape = maker.shape()
        base = {"name": name, "kind": "main_grad", "step": 0, "dtype": "float32"}
        parts = 1 + maker.below(3) if maker.chance(3) else 0
        together = maker.below(3)
        values = [maker.values(shape) for _ in range(max(parts, 1))]
        entry: dict = base | {"shape": list(shape)}
        whole = values[0]
        if parts:
            numbers = list(range(parts))
            base["kind"] = entry["kind"] = "param_grad"
            if together == 0:
                whole, entry["microbatches"] = sum(values), {"sum": numbers}
            else:
                d = maker.below(len(shape))
                whole = np.concatenate(values, axis=d)
                entry["microbatches"] = {"shard": d, "of": numbers}
            entry["shape"] = list(whole.shape)
        made.reference.append((entry, whole))
        fault = maker.below(4)
        spoiled_part = maker.below(len(values))
        off = np.zeros(shape)
        if fault == 1:
            off.flat[maker.below(off.size)] = 512
        classes = None
        for part, value in enumerate(values):
            layout = maker.layout(shape)
            wrong = value + off if part == spoiled_part else value
            shards = cut(wrong, layout, maker)
            if fault == 2 and part == spoiled_part:
                classes = spoil_a_copy(shards, maker)
            described = base | {"shape": list(shape)} | layout.entry()
            if parts:
                described["microbatch"] = part
            held = {shard.rank: shard.values for shard in shards}
            made.candidate.append((described, held))
        outcome = "diverged" if fault == 1 else "replica_conflict" if classes else "match"
        made.expected[name] = Expected(
            outcome,
            norm(off),
            norm(whole),
            float(np.abs(off).max(initial=0)),
            classes,
        )
    return made


def write(trace: RandomTrace, folder: Path) -> tuple[Path, Path]:
    """Writes reference and candidate into `folder` and returns their paths."""

    def manifest(entries: list[dict], meshes: dict) -> str:
        return json.dumps(
            {"schema": "ttrace.manifest/2", "meshes": meshes, "tensors": entries}, indent=1
        )

    folder.mkdir(parents=True)
    with h5py.File(folder / "ref.h5", "w") as file:
        for entry, values in trace.reference:
            file[dataset_path(entry)] = values.astype("<f4")
        file["manifest"] = manifest([entry for entry, _ in trace.reference], {"": {"axes": []}})
    run = folder / "run"
    run.mkdir()
    (run / "manifest.json").write_text(manifest([entry for entry, _ in trace.candidate], MESHES))
    for rank in range(RANKS):
        with h5py.File(run / f"rank_{rank:05d}.h5", "w") as file:
            file.attrs["ttrace_rank"] = rank
            for entry, held in trace.candidate:
                if rank in held:
                    file[dataset_path(entry)] = held[rank].astype("<f4")
    return folder / "ref.h5", run
