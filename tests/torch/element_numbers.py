"""Which elements of a tensor a rank holds: the table of placements, read a second time.

Nothing but array slicing on the tensor of element numbers; none of the collector's code.
"""

from __future__ import annotations

import itertools
import math

import numpy as np


def ranks_of(mesh):
    """rank -> coordinates (axis -> coordinate) of a manifest's mesh."""
    axes = mesh["axes"]
    ranges = [range(axis["size"]) for axis in axes]
    places = itertools.product(*ranges)
    names = [axis["name"] for axis in axes]
    coordinates = [dict(zip(names, place, strict=True)) for place in places]
    ranks = mesh.get("ranks", "row-major")
    ranks = range(len(coordinates)) if ranks == "row-major" else ranks
    return dict(zip(ranks, coordinates, strict=True))


def holds(entry, where):
    """Whether the rank at coordinates `where` of the entry's mesh holds a part."""
    placements = entry.get("placements", {})
    only = {a: [p["only"]] for a, p in placements.items() if "only" in p}
    held = {**only, **entry.get("held_at", {})}
    return all(where[axis] in coordinates for axis, coordinates in held.items())


def element_numbers(entry, mesh, where, rows=None):
    """Numbers (row-major) of the elements that `where` holds, in the shape of its dataset.

    rows: index tensor's name -> the rank's part of it, for placements that name one.
    """
    held = np.arange(math.prod(entry["shape"])).reshape(entry["shape"])
    flat = None
    for axis in mesh["axes"]:
        name, size = axis["name"], axis["size"]
        placement = entry.get("placements", {}).get(name, "replicate")
        listed = entry.get("held_at", {}).get(name, list(range(size)))
        if placement == "replicate" or "partial" in placement or "only" in placement:
            continue
        index, parts = listed.index(where[name]), len(listed)
        if "flat" in placement:
            flat = placement["flat"][index]
        elif "boxes" in placement:
            offset, extent = placement["boxes"][index]
            held = held[tuple(slice(o, o + e) for o, e in zip(offset, extent, strict=True))]
        elif "rows" in placement:
            given = rows[placement["rows"]["index"]]
            dim = placement["rows"]["dim"]
            taken = np.take(held, np.maximum(given, 0), axis=dim) if given.size else None
            held = held.take([], axis=dim) if taken is None else taken
            padding = [slice(None)] * held.ndim
            padding[dim] = np.flatnonzero(given < 0)
            held[tuple(padding)] = -1
        else:
            held = _cut(held, placement, parts, index)
    if flat is not None:
        held = held.reshape(-1)[flat[0] : flat[1]]
    return held


def _cut(held, placement, parts, index):
    dim = placement["shard"]
    if "stride" in placement:
        pieces = [_chunk(c, parts, index, dim) for c in _chunks(held, placement["stride"], dim)]
        return np.concatenate(pieces, axis=dim)
    if placement.get("order") == "zigzag":
        chunks = _chunks(held, 2 * parts, dim)
        return np.concatenate([chunks[index], chunks[2 * parts - 1 - index]], axis=dim)
    if "segments" in placement:
        widths = placement["segments"] * placement.get("repeat", 1)
        sizes = placement.get("sizes", [None] * len(placement["segments"]))
        sizes = sizes * placement.get("repeat", 1)
        segments = _split(held, widths, dim)
        pieces = [
            _chunk(segment, parts, index, dim)
            if given is None
            else _split(segment, given, dim)[index]
            for segment, given in zip(segments, sizes, strict=True)
        ]
        return np.concatenate(pieces, axis=dim)
    if "sizes" in placement:
        return _split(held, placement["sizes"], dim)[index]
    return _chunk(held, parts, index, dim)


def _split(held, sizes, dim):
    assert sum(sizes) == held.shape[dim], (sizes, held.shape, dim)
    return np.split(held, np.cumsum(sizes)[:-1], axis=dim)


def _chunks(held, parts, dim):
    """As torch.chunk cuts, with empty parts to make up the number."""
    extent = held.shape[dim]
    width = -(-extent // parts)
    stops = [min(width * i, extent) for i in range(1, parts)]
    return np.split(held, stops, axis=dim)


def _chunk(held, parts, index, dim):
    return _chunks(held, parts, dim)[index]
