"""The table of a rank file's ranges (schemas/ranges-v1.md): where in the file its tensors lie.

HDF5 takes longer to open a small tensor than to read it. The table is written when the file is
closed for good, and sealed with the size of the file and a checksum of all bytes but the tensors',
so that a reader sees whether the file is still what the table was made for.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import numpy as np

from ttrace_torch.write.step_file import StepFile

_SCHEMA = b"ttrace.ranges/1\n"
_SEAL = len(_SCHEMA)
_SEAL_BYTES = 16
_READ_AT_ONCE = 1 << 20


# Offset and size in the file, name of the element type, shape.
_Range = tuple[int, int, str, tuple[int, ...]]


class Ranges:
    """The ranges of a file's contiguous datasets.

    Those added since the last `keep` are forgotten by `forget`.
    """

    def __init__(self) -> None:
        self._kept: dict[str, _Range] = {}
        self._new: dict[str, _Range] = {}

    def add(self, path: str, offset: int, size: int, dtype: str, shape: tuple[int, ...]) -> None:
        """Adds a dataset. offset, size: of its elements in the file, in bytes."""
        self._new[path] = (offset, size, dtype, shape)

    def move(self, old: str, new: str) -> None:
        """Gives a dataset another path."""
        if old in self._new:
            self._new[new] = self._new.pop(old)

    def drop(self, group: str) -> None:
        """Removes the datasets below a group."""
        for path in [path for path in self._new if path.startswith(f"{group}/")]:
            del self._new[path]

    def keep(self) -> None:
        """Makes what was added last."""
        self._kept.update(self._new)
        self._new.clear()

    def forget(self) -> None:
        """Drops what was added since the last `keep`."""
        self._new.clear()

    def table(self) -> bytes:
        """The table, not sealed; nothing if there is no range."""
        every = {**self._kept, **self._new}
        offsets, facts = [], []
        known: dict[tuple[str, Sequence[int]], int] = {}
        for offset, _, dtype, shape in every.values():
            offsets.append(offset)
            facts.append(known.setdefault((dtype, shape), len(known)))
        names = "".join([f"/{path}\n" for path in every]).encode()
        if not every or names.count(b"\n") != len(every):
            return b""
        text = "".join(" ".join(map(str, (dtype, *shape))) + "\n" for dtype, shape in known)
        head = struct.pack("<QQQQ", 0, 0, len(every), len(text))
        numbers = np.array(offsets, "<u8").tobytes() + np.array(facts, "<u4").tobytes()
        return _SCHEMA + head + numbers + text.encode() + names

    def seal(self, file: StepFile, at: int) -> None:
        """Completes the table, which stands at `at` of the file that HDF5 has closed."""
        taken = [(at + _SEAL, at + _SEAL + _SEAL_BYTES)]
        for offset, size, _, _ in (*self._kept.values(), *self._new.values()):
            taken.append((offset, offset + size))
        taken.sort()
        crc, begin = 0, 0
        for first, end in [*taken, (file.size, file.size)]:
            while begin < first:
                file.seek(begin)
                part = file.read(min(first - begin, _READ_AT_ONCE))
                crc = zlib.crc32(part, crc)
                begin += len(part)
            begin = end
        file.seek(at + _SEAL)
        file.write(struct.pack("<QQ", file.size, crc))
