"""Files that appear under their name only when all their bytes are on the disk."""

from __future__ import annotations

import errno
import os
import uuid
from pathlib import Path

# The errors of file systems that cannot sync a folder.
_NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES, errno.EISDIR)


def write_synced(path: Path, text: str) -> None:
    """Writes a new file. Throws OSError if a byte may not be on the disk."""
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        # Network file systems may report a lack of space only now.
        os.fsync(file.fileno())


def write_whole(path: Path, text: str) -> None:
    """Writes a file, or replaces one, at once: readers find the old text or the new one.

    Throws OSError; the old file, if any, is then still there.
    """
    temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        write_synced(temporary, text)
        os.replace(temporary, path)
    except OSError:
        remove_quietly(temporary)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Brings the names in a folder to the disk. Throws OSError, but not where it cannot be done."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError:
        return  # a folder may be written and not read
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise
    finally:
        os.close(descriptor)


def remove_quietly(path: Path) -> None:
    """Removes a file, if it is there and can be removed."""
    try:
        path.unlink()
    except OSError:
        return
