"""A file that is written in whole steps: bytes count from their commit on, or never.

A job can be killed at any moment, and its earlier steps should be readable then. So new bytes go
behind the end of the last commit, where no reader looks. Only the commit changes bytes that readers
see: the head of the file, which says where everything else is. Meanwhile the file has its temporary
name: readers find it complete, or not at all.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from ttrace_torch.base.files import remove_quietly, sync_folder

# Bytes that are written together if they come in small parts.
_TOGETHER = 1 << 20


class StepFile:
    """A file that begins with a head of a fixed size. All calls throw OSError for I/O errors."""

    def __init__(self, path: Path, head: int) -> None:
        """head: bytes of the head."""
        self._path = path
        self._temporary = path.with_name(path.name + ".tmp")
        self._head = head
        self._descriptor = -1
        self._published = False
        self._committed = 0
        # Its size after the next commit.
        self.size = 0
        # The last bytes of it, which are not written yet.
        self._buffer = bytearray()

    @property
    def empty(self) -> bool:
        """Whether nothing has been committed."""
        return not self._published

    def create(self) -> None:
        """Makes the folder and an empty temporary file."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._temporary.write_bytes(b"")

    def begin(self) -> None:
        """Opens the file for a step, unless it is open."""
        if self._descriptor < 0:
            path = self._path if self._published else self._temporary
            self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            self.size = self._committed or self._head

    def append(self, data: bytes | memoryview) -> int:
        """Adds `data` at the end, and returns its place. `begin` has been called."""
        place = self.size
        if len(data) >= _TOGETHER:
            self._flush()
            _write_at(self._descriptor, memoryview(data), place)
            self.size += len(data)
            return place
        self._buffer += data
        self.size += len(data)
        if len(self._buffer) >= _TOGETHER:
            self._flush()
        return place

    def read(self, place: int, size: int) -> bytes:
        """Bytes that have been added; fewer if the file ends."""
        self._flush()
        return _read_at(self._descriptor, size, place)

    def replace(self, place: int, data: bytes | memoryview) -> None:
        """Replaces bytes that have been added since the last commit."""
        self._flush()
        _write_at(self._descriptor, memoryview(data), place)

    def commit(self, head: bytes) -> None:
        """Commits the bytes added since `begin`, with a new head, and closes the file.

        Throws OSError for I/O errors; the caller must then call `rollback`. The last commit stays,
        unless it cannot be restored either.
        """
        self._flush()
        # Some file systems report a lack of space only now.
        os.fsync(self._descriptor)
        before: bytes | None = None
        if self._published:
            before = _read_at(self._descriptor, self._head, 0)
            os.rename(self._path, self._temporary)
            # The file has its temporary name again until the commit is complete, so that half of a
            # commit does not count as committed.
            self._published = False
        try:
            self._publish(head, self.size)
        except OSError:
            if before is not None and not self._published:
                with suppress(OSError):
                    self._publish(before, self._committed)
            if not self._published:
                self._committed = 0
            raise
        self._close()

    def _publish(self, head: bytes, size: int) -> None:
        """Writes the head, ends the file after `size` bytes, and gives it its name.

        A full disk may refuse every write, so a head that is there already is not written.
        """
        if _read_at(self._descriptor, len(head), 0) != head:
            _write_at(self._descriptor, memoryview(head), 0)
        os.ftruncate(self._descriptor, size)
        os.fsync(self._descriptor)
        os.rename(self._temporary, self._path)
        self._published, self._committed = True, size
        sync_folder(self._path.parent)

    def rollback(self) -> None:
        """Drops the bytes added since the last commit, and closes the file."""
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

    def _flush(self) -> None:
        if self._buffer:
            place = self.size - len(self._buffer)
            _write_at(self._descriptor, memoryview(self._buffer), place)
            self._buffer = bytearray()

    def _close(self) -> None:
        self._buffer = bytearray()
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
