"""Context parallelism's order of chunks, by which causal attention is equal work for all ranks."""

from __future__ import annotations

from ttrace_torch.layout.cuts.chunk import chunk
from ttrace_torch.layout.cuts.ranges import Ranges, appended


def zigzag_part(extent: int, parts: int, index: int) -> Ranges:
    """Chunks `index` and 2·parts-1-index of the 2·parts chunks of `extent` elements."""
    first = appended([], *chunk(extent, 2 * parts, index))
    return appended(first, *chunk(extent, 2 * parts, 2 * parts - 1 - index))
