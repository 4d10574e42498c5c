"""Placements as the manifest writes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ttrace_torch.layout.placement import (
    Boxes,
    Flat,
    Only,
    Partial,
    Placement,
    Replicate,
    Rows,
    Segments,
    Shard,
    Strided,
    Zigzag,
)


def to_json(placements: Mapping[str, Placement]) -> dict[str, Any]:
    """Normalised placements as the manifest has them; replicated axes are left out."""
    return {
        axis: _word(placement)
        for axis, placement in placements.items()
        if not isinstance(placement, Replicate)
    }


def cut_from_json(value: Any) -> Placement:
    """The placement that `value` stands for; a replicated axis for what tells no extents."""
    if not isinstance(value, dict):
        return Replicate()
    if "boxes" in value:
        return Boxes([(tuple(offset), tuple(size)) for offset, size in value["boxes"]])
    if "shard" not in value:
        return Replicate()
    dim = value["shard"]
    if "segments" in value:
        return Segments(dim, value["segments"], value.get("repeat", 1), value.get("sizes"))
    if "stride" in value:
        return Strided(dim, value["stride"])
    return Zigzag(dim) if "order" in value else Shard(dim, value.get("sizes"))


def _word(placement: Placement) -> dict[str, Any]:
    if isinstance(placement, Segments):
        return _segments(placement)
    if isinstance(placement, Shard):
        sizes = {} if placement.sizes is None else {"sizes": list(placement.sizes)}
        return {"shard": placement.dim, **sizes}
    if isinstance(placement, Zigzag):
        return {"shard": placement.dim, "order": "zigzag"}
    if isinstance(placement, Strided):
        return {"shard": placement.dim, "stride": placement.stride}
    if isinstance(placement, Boxes):
        return {"boxes": [[list(offset), list(size)] for offset, size in placement.boxes]}
    if isinstance(placement, Flat):
        return {"flat": [[start, stop] for start, stop in placement.ranges]}
    if isinstance(placement, Rows):
        return {"rows": {"dim": placement.dim, "index": placement.index}}
    if isinstance(placement, Partial):
        return {"partial": placement.reduction}
    if isinstance(placement, Only):
        return {"only": placement.coordinate}
    raise AssertionError(placement)


def _segments(placement: Segments) -> dict[str, Any]:
    value: dict[str, Any] = {"shard": placement.dim, "segments": list(placement.segments)}
    if placement.repeat != 1:
        value["repeat"] = placement.repeat
    if placement.sizes is not None:
        value["sizes"] = [list(parts) for parts in placement.sizes]
    return value
