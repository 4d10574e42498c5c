"""A dimension that is several things one after the other (q, k and v; gate and up)."""

from __future__ import annotations

from collections.abc import Sequence

from ttrace_torch.errors import TraceError
from ttrace_torch.layout.cuts.chunk import shard_part
from ttrace_torch.layout.cuts.ranges import Ranges, appended


def segments_part(
    segments: Sequence[int],
    repeat: int,
    sizes: Sequence[Sequence[int]] | None,
    extent: int,
    parts: int,
    index: int,
) -> Ranges:
    """Part `index` of every segment, one after the other; the list of segments `repeat` times.

    Throws where the segments do not add up to `extent`.
    """
    width = sum(segments)
    if width * repeat != extent:
        times = f", {repeat} times," if repeat > 1 else ""
        raise TraceError(
            f"the segments {list(segments)}{times} add up to {width * repeat}, but there are "
            f"{extent} elements to cut; give the segments of what the earlier axes leave"
        )
    held: Ranges = []
    for start in range(0, extent, max(width, 1)):
        for number, segment in enumerate(segments):
            given = None if sizes is None else sizes[number]
            for offset, length in shard_part(given, segment, parts, index):
                held = appended(held, start + offset, length)
            start += segment
    return held
