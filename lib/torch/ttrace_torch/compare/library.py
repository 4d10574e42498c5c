"""Finds libttrace.so and declares its functions (apps/libttrace/ttrace.h) to ctypes."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Iterator
from pathlib import Path

from ttrace_torch.compare.program import find_program
from ttrace_torch.errors import TraceError

INTERFACE_VERSION = 1
_NAME = "libttrace.so"


class Tensor(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("kind", ctypes.c_char_p),
        ("dtype", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_uint64)),
        ("dims", ctypes.c_uint32),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("data", ctypes.c_void_p),
    )


class Run(ctypes.Structure):
    _fields_ = (
        ("label", ctypes.c_char_p),
        ("tensors", ctypes.POINTER(Tensor)),
        ("count", ctypes.c_size_t),
        ("seed", ctypes.c_uint64),
    )


class Comparison(ctypes.Structure):
    _fields_ = (
        ("interface_version", ctypes.c_uint32),
        ("threads", ctypes.c_uint32),
        ("reference", Run),
        ("candidate", Run),
        ("noise", ctypes.POINTER(Run)),
        ("noise_count", ctypes.c_size_t),
    )


def _places() -> Iterator[Path]:
    """Where an installation or a build has the library: beside the program, or in lib/ beside its
    bin/."""
    given = os.environ.get("TTRACE_LIBRARY")
    if given:
        yield Path(given)
        return
    program = find_program()
    if program:
        folder = Path(program).resolve().parent
        yield folder / _NAME
        yield folder.parent / "lib" / _NAME


@functools.lru_cache(maxsize=1)
def load() -> ctypes.CDLL:
    """Opens the library once. Raises TraceError if it is not there."""
    tried = list(_places())
    for place in tried:
        if place.exists():
            library = ctypes.CDLL(str(place))
            library.ttrace_compare_device.argtypes = (
                ctypes.POINTER(Comparison),
                ctypes.POINTER(ctypes.c_void_p),
            )
            library.ttrace_compare_device.restype = ctypes.c_int
            library.ttrace_free.argtypes = (ctypes.c_void_p,)
            library.ttrace_free.restype = None
            return library
    looked = f"looked for {', '.join(map(str, tried))}; " if tried else ""
    raise TraceError(
        f"compare_tensors needs {_NAME}, which is built with ttrace: {looked}"
        "put ttrace on PATH, or set TTRACE_LIBRARY to the library's path"
    )
