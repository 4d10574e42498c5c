"""Element types: their names in the format, their HDF5 types, their machine epsilons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np
import torch


@dataclass(frozen=True)
class Dtype:
    """One element type of the format.

    bits: numpy type of the stored bits, which is what is written: memory type = file type.
    epsilon: machine epsilon as the tool counts it; None for what is not a floating-point type.
    """

    name: str
    bits: np.dtype[Any]
    epsilon: float | None = None


def _table() -> dict[torch.dtype, Dtype]:
    rows = [
        ("float64", "<u8", 2.0**-52),
        ("float32", "<u4", 2.0**-23),
        ("float16", "<u2", 2.0**-10),
        ("bfloat16", "<u2", 2.0**-7),
        ("float8_e4m3fn", "u1", 2.0**-3),
        ("float8_e5m2", "u1", 2.0**-2),
        ("int8", "i1", None),
        ("int16", "<i2", None),
        ("int32", "<i4", None),
        ("int64", "<i8", None),
        ("uint8", "u1", None),
        ("uint16", "<u2", None),
        ("uint32", "<u4", None),
        ("uint64", "<u8", None),
        ("bool", "?", None),
    ]
    # Older releases of torch lack the wider unsigned integers.
    return {
        getattr(torch, name): Dtype(name, np.dtype(bits), epsilon)
        for name, bits, epsilon in rows
        if hasattr(torch, name)
    }


DTYPES = _table()
BY_NAME = {dtype.name: dtype for dtype in DTYPES.values()}


def of(tensor: torch.Tensor) -> Dtype | None:
    """The format's dtype of `tensor`, None where the format has none (complex, quantised)."""
    return DTYPES.get(tensor.dtype)


def bits(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """The stored bits of a contiguous CPU tensor, same shape."""
    dtype = DTYPES[tensor.dtype]
    if dtype.epsilon is None:
        return tensor.numpy()
    # Not every torch has views of floating-point types as unsigned ones; signed ones it has.
    signed = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    array: np.ndarray[Any, Any] = tensor.view(signed[dtype.bits.itemsize]).numpy()
    return array.view(dtype.bits)


def _small_float(size: int, exponent: int, mantissa: int, bias: int) -> Any:
    kind = h5py.h5t.IEEE_F16LE.copy()
    # The fields first: HDF5 refuses a size that the old ones do not fit in.
    kind.set_fields(exponent + mantissa, mantissa, exponent, 0, mantissa)
    kind.set_precision(8 * size)
    kind.set_size(size)
    kind.set_ebias(bias)
    return kind


def hdf5_type(name: str) -> Any:
    """HDF5 type of the dtype called `name`, on disk and in memory alike."""
    if name == "bfloat16":
        return _small_float(2, 8, 7, 127)
    if name == "float8_e4m3fn":
        return _small_float(1, 4, 3, 7)
    if name == "float8_e5m2":
        return _small_float(1, 5, 2, 15)
    if name == "bool":
        return h5py.h5t.py_create(np.dtype(bool), logical=True)
    return h5py.h5t.py_create(np.dtype(name).newbyteorder("<"))
