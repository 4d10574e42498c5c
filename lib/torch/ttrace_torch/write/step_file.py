"""A file that is written in whole steps: bytes count from their commit on, or never.

A job can be killed at any moment, and its earlier steps should be readable then. So new bytes go
behind the end of the last commit, where no reader looks. Changes of earlier bytes, which HDF5 makes
to a few blocks of metadata, wait in memory. Only the commit touches bytes that readers see.
Meanwhile the file has its temporary name: readers find it complete, or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ttrace_torch.base.files import remove_quietly, sync_folder

_PAGE = 4096


class StepFile:
    """The file object that h5py writes a rank's file through.

    After a failed write it ignores all further ones, because HDF5 cannot close a file whose writes
    fail. `error` is the first error.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._temporary = path.with_name(path.name + ".tmp")
        self._descriptor = -1
        self._process = os.getpid()
        self._published = False
        self._committed = 0
        self._size = 0
        self._place = 0
        # Page number -> content, of committed pages that have changed since.
        self._pages: dict[int, bytearray] = {}
        self._ignoring = False
        self.error: OSError | None = None

    @property
    def empty(self) -> bool:
        """Whether nothing has been committed."""
        return not self._published

    @property
    def size(self) -> int:
        """Its size after the next commit."""
        return self._size

    def create(self) -> None:
        """Makes the folder and an empty temporary file."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._temporary.write_bytes(b"")

    def begin(self) -> None:
        """Opens the file for a step."""
        path = self._path if self._published else self._temporary
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._size = self._committed
        self._place = 0
        self._ignoring = False
        self.error = None

    def commit(self) -> None:
        """Commits the bytes written since `begin`, and closes the file.

        Throws OSError for I/O errors; the caller must then call `rollback`. The last commit stays,
        unless it cannot be restored either.
        """
        # Some file systems report a lack of space only now.
        os.fsync(self._descriptor)
        before: dict[int, bytes] | None = None
        if self._published:
            places = {number: number * _PAGE for number in self._pages}
            before = {n: _read_at(self._descriptor, _PAGE, at) for n, at in places.items()}
            os.rename(self._path, self._temporary)
            # The file has its temporary name again until the commit is complete, so that half of a
            # commit does not count as committed.
            self._published = False
        try:
            self._publish(self._pages, self._size)
        except OSError:
            if before is not None and not self._published:
                with suppress(OSError):
                    self._restore(before)
            if not self._published:
                self._committed = 0
            raise
        self._close()

    def _restore(self, pages: Mapping[int, bytes]) -> None:
        """Makes the file again what the last commit left. A full disk may refuse every write, so
        only pages that have changed are written."""
        changed = {
            number: page
            for number, page in pages.items()
            if _read_at(self._descriptor, len(page), number * _PAGE) != page
        }
        self._publish(changed, self._committed)

    def _publish(self, pages: Mapping[int, bytes | bytearray], size: int) -> None:
        """Writes `pages`, ends the file after `size` bytes, and gives it its name."""
        for number, page in pages.items():
            _write_at(self._descriptor, memoryview(page), number * _PAGE)
        os.ftruncate(self._descriptor, size)
        os.fsync(self._descriptor)
        os.rename(self._temporary, self._path)
        self._published, self._committed = True, size
        sync_folder(self._path.parent)

    def ignore(self) -> None:
        """Ignores writes from here on: the step will be rolled back."""
        self._ignoring = True

    def rollback(self) -> None:
        """Drops the bytes written since the last commit, and closes the file."""
        if self._descriptor >= 0:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._committed)
            self._close()

    def discard_temporary(self) -> None:
        """Removes the temporary file."""
        remove_quietly(self._temporary)

    def discard(self) -> None:
        """Removes the file and the temporary file."""
        self.discard_temporary()
        remove_quietly(self._path)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Sets the position of the next read or write."""
        self._place = offset + (self._size if whence == os.SEEK_END else 0)
        return self._place

    def tell(self) -> int:
        """The position of the next read or write."""
        return self._place

    def truncate(self, size: int) -> int:
        """Sets the size of the file."""
        self._size = size
        return size

    def flush(self) -> None:
        """Does nothing: a commit flushes."""

    def read(self, size: int) -> bytes:
        """The bytes from the position on; zero if not written yet."""
        buffer = bytearray(size)
        self.readinto(buffer)
        return bytes(buffer)

    def readinto(self, buffer: bytearray | memoryview) -> int:
        """Fills `buffer` from the position on, with zeros for bytes that were not written yet."""
        view = memoryview(buffer).cast("B")
        start, size = self._place, len(view)
        data = _read_at(self._descriptor, size, start)
        view[:] = data.ljust(size, b"\0")
        for number in self._changed(start, size):
            low, high = max(start, number * _PAGE), min(start + size, (number + 1) * _PAGE)
            page = memoryview(self._pages[number])
            view[low - start : high - start] = page[low - number * _PAGE : high - number * _PAGE]
        self._place += size
        return size

    def write(self, data: bytes | memoryview) -> int:
        """Writes at the position. Never fails, see `error`."""
        view = memoryview(data).cast("B")
        start, size = self._place, len(view)
        self._place += size
        self._size = max(self._size, start + size)
        # A forked child that closes the inherited file must not write.
        if self._ignoring or self.error is not None or os.getpid() != self._process:
            return size
        # Pages from here on have no committed bytes.
        free = -(-self._committed // _PAGE) * _PAGE
        kept = max(0, min(size, free - start))
        try:
            if kept:
                self._change(start, view[:kept])
            _write_at(self._descriptor, view[kept:], start + kept)
        except OSError as error:
            self.error = error
        return size

    def _changed(self, start: int, size: int) -> list[int]:
        if not self._pages or start >= self._committed + _PAGE:
            return []
        numbers = range(start // _PAGE, (start + size - 1) // _PAGE + 1)
        return [number for number in numbers if number in self._pages]

    def _change(self, start: int, view: memoryview) -> None:
        end = start + len(view)
        for number in range(start // _PAGE, (end - 1) // _PAGE + 1):
            first = number * _PAGE
            if number not in self._pages:
                known = _read_at(self._descriptor, _PAGE, first)
                self._pages[number] = bytearray(known.ljust(_PAGE, b"\0"))
            low, high = max(start, first), min(end, first + _PAGE)
            self._pages[number][low - first : high - first] = view[low - start : high - start]

    def _close(self) -> None:
        self._pages = {}
        descriptor, self._descriptor = self._descriptor, -1
        os.close(descriptor)


def _read_at(descriptor: int, size: int, place: int) -> bytes:
    """The bytes from `place` on: `size`, or fewer where the file ends. One call may read fewer."""
    parts = []
    while size > 0 and (part := os.pread(descriptor, size, place)):
        parts.append(part)
        size, place = size - len(part), place + len(part)
    return b"".join(parts)


def _write_at(descriptor: int, view: memoryview, place: int) -> None:
    """Writes all of `view`. One call writes 2 GiB at most, and less near a limit of the file's
    size."""
    while len(view):
        written = os.pwrite(descriptor, view, place)
        view, place = view[written:], place + written
