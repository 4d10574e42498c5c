"""Programs one of whose reads, writes, closes, syncs or renames fails: how to run them.

`failing_io.c` is the library that does it; it says what each variable means. It is compiled at the
first use, into a folder that goes with this process.
"""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).with_name("failing_io.c")
# What changes a file or folder. Reading fails only where it is asked for.
CHANGES = ("open", "write", "sync", "close", "rename", "link", "unlink", "truncate", "mkdir")


class Call(NamedTuple):
    """One call that was counted. number: from 1 on. call: its family, such as "write"."""

    number: int
    call: str
    path: str


@functools.lru_cache(maxsize=1)
def library() -> Path:
    """The compiled library. Raises RuntimeError without a C compiler."""
    compiler = os.environ.get("CC") or next(filter(shutil.which, ("cc", "gcc", "clang")), None)
    if compiler is None:
        raise RuntimeError("failing_io: no C compiler; install gcc or clang, or name one in CC")
    folder = tempfile.mkdtemp(prefix="failing_io_")
    weakref.finalize(library, shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder, "failing_io.so")
    flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    subprocess.run([compiler, *flags, str(SOURCE), "-o", str(path), "-ldl"], check=True)
    return path


def variables(
    folder: str | Path,
    at: int = 0,
    error: str = "ENOSPC",
    calls: Iterable[str] = CHANGES,
    times: int = 1,
    count: str | Path | None = None,
) -> dict[str, str]:
    """The variables under which a program's calls below `folder` are counted, and call `at` fails.

    at: from 1 on; 0 lets all succeed. error: "ENOSPC", "EIO" and others, "SHORT" for half a write.
    calls: the families that count. times: how many calls fail from `at` on.
    count: a file for the calls that were counted, see `counted`.
    Add them to the environment of the program.
    """
    others = os.environ.get("LD_PRELOAD", "")
    return {
        "LD_PRELOAD": " ".join(filter(None, (str(library()), others))),
        "FAIL_IO_PATH": str(Path(folder).resolve()),
        "FAIL_IO_CALL": ",".join(calls),
        "FAIL_IO_AT": str(at),
        "FAIL_IO_ERRNO": error,
        "FAIL_IO_TIMES": str(times),
        "FAIL_IO_COUNT": str(count or ""),
    }


def set_in_this_process(settings: dict[str, str]) -> None:
    """Counts anew under `settings`, those of `variables`, in a process with the library preloaded.

    For children that are forked, since a new process would take longer than what is tested.
    """
    os.environ.update({name: text for name, text in settings.items() if name != "LD_PRELOAD"})
    ctypes.CDLL(None).failing_io_reload()


def counted(file: str | Path) -> list[Call]:
    """The calls that a program, or several, have appended to `count`."""
    path = Path(file)
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    fields = (line.split(" ", 2) for line in lines)
    return [Call(int(number), call, path) for number, call, path in fields]
