"""The table of a rank file's ranges (schemas/ranges-v1.md): where in the file its tensors lie.

HDF5 takes longer to open a small tensor than to read it. The table is written when the file is
closed for good, and sealed with the size of the file and a checksum of all bytes but the tensors',
so that a reader sees whether the file is still what the table was made for.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence
from math import prod

import numpy as np

from ttrace_torch.base import dtypes
from ttrace_torch.write.datasets import Datasets, Type
from ttrace_torch.write.step_file import StepFile

_SCHEMA = b"ttrace.ranges/1\n"
_SEAL = len(_SCHEMA)
_SEAL_BYTES = 16
_READ_AT_ONCE = 1 << 20


def ranges_table(groups: Sequence[tuple[str, Datasets]]) -> bytes:
    """The table of the datasets of groups, each with its path, not sealed; nothing if there is no
    dataset."""
    known: dict[Type, int] = {}
    places = [place for _, group in groups for place in group.places.values()]
    facts = [
        known.setdefault(one, len(known)) for _, group in groups for one in group.types.values()
    ]
    paths = "".join([f"/{path}/{name}\n" for path, group in groups for name in group.places])
    if not places or paths.count("\n") != len(places):
        return b""
    text = "".join(" ".join(map(str, (dtype, *shape))) + "\n" for dtype, shape in known).encode()
    head = struct.pack("<QQQQ", 0, 0, len(places), len(text))
    numbers = np.array(places, "<u8").tobytes() + np.array(facts, "<u4").tobytes()
    return _SCHEMA + head + numbers + text + paths.encode()


def seal_ranges(
    file: StepFile, head: bytes, at: int, groups: Iterable[tuple[str, Datasets]]
) -> None:
    """Completes the table, which stands at `at` of a file that is complete but for its `head`."""
    taken = [(at + _SEAL, at + _SEAL + _SEAL_BYTES)]
    for _, group in groups:
        for place, (dtype, shape) in zip(group.places.values(), group.types.values()):
            taken.append((place, place + dtypes.BY_NAME[dtype].bits.itemsize * prod(shape)))
    crc, begin = zlib.crc32(head), len(head)
    for first, end in [*sorted(taken), (file.size, file.size)]:
        while begin < first:
            part = file.read(begin, min(first - begin, _READ_AT_ONCE))
            crc = zlib.crc32(part, crc)
            begin += len(part)
        begin = end
    file.replace(at + _SEAL, struct.pack("<QQ", file.size, crc))
