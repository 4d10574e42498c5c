"""A dimension cut into parts, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from ttrace_torch.errors import TraceError
from ttrace_torch.layout.cuts.ranges import Ranges, appended


def chunk(extent: int, parts: int, index: int) -> tuple[int, int]:
    """Start and length of part `index` of `parts` in the order of `torch.chunk`.

    Parts of ceil(extent / parts), the last ones smaller or empty.
    """
    width = -(-extent // parts)
    start = min(index * width, extent)
    return start, min(width, extent - start)


def shard_part(sizes: Sequence[int] | None, extent: int, parts: int, index: int) -> Ranges:
    """Part `index`, by given sizes or in the order of `torch.chunk`."""
    if sizes is None:
        return appended([], *chunk(extent, parts, index))
    if sum(sizes) != extent:
        raise TraceError(
            f"the sizes {list(sizes)} add up to {sum(sizes)}, but there are {extent} elements to "
            "cut; give the sizes of what the earlier axes leave"
        )
    return appended([], sum(sizes[:index]), sizes[index])
