"""Element types of the trace format, and the narrowest one that a step computes in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ttrace_torch.base.names import LOSSES, ROOT


@dataclass(frozen=True)
class Dtype:
    """One element type of the format.

    bits: numpy type of the stored bits, in memory and in the file.
    epsilon: machine epsilon as `ttrace` defines it; None for integers and booleans.
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


# A GPU may multiply float32 in it; nothing is stored in it.
TF32 = Dtype("tf32", np.dtype("<u4"), 2.0**-10)

# Kinds whose values are not computed in the step.
_GIVEN_KINDS = frozenset({"param", "buffer"})

DTYPES = _table()
BY_NAME = {dtype.name: dtype for dtype in DTYPES.values()}


def of(tensor: torch.Tensor) -> Dtype | None:
    """The format's dtype of `tensor`; None if the format has none (complex, quantised)."""
    return DTYPES.get(tensor.dtype)


def is_known(tensor: torch.Tensor) -> bool:
    """Whether the format can hold `tensor`, complex numbers as their two parts."""
    dtype = tensor.dtype
    return (dtype.to_real() if dtype.is_complex else dtype) in DTYPES


class StepPrecision:
    """The narrowest floating-point type among a step's parameters and module outputs.

    A step computes in that type: the loss and the gradient norm of a bf16 model carry bf16 rounding
    errors even if they are stored as float32 or float64. Every floating-point value stored in a
    wider type is therefore marked, except values that the step did not compute: parameters before
    it, buffers, inputs of the whole model, and the factors of losses.

    on_gpu: whether some of them are float32 on a GPU.
    """

    on_gpu = False

    def __init__(self) -> None:
        self._narrowest: Dtype | None = None

    def note_tf32(self) -> None:
        """Notes that a GPU multiplied float32 values in TF32."""
        if _narrower(TF32, self._narrowest):
            self._narrowest = TF32

    def note(self, tensor: torch.Tensor) -> None:
        """Takes a parameter or a module's output into account."""
        dtype = of(tensor)
        if dtype is not None and _narrower(dtype, self._narrowest):
            self._narrowest = dtype
        if tensor.is_cuda and tensor.dtype is torch.float32:
            self.on_gpu = True

    def computed_in(self, kind: str, name: str, stored: str) -> str | None:
        """Name of the dtype that a tensor was computed in; None if it is `stored`, the dtype in the
        file."""
        given = kind in _GIVEN_KINDS or kind == "grad_output" and name in LOSSES
        given = given or (kind == "input" and name.split("[")[0] == ROOT)
        if given or BY_NAME[stored].epsilon is None or self._narrowest is None:
            return None
        narrower = _narrower(self._narrowest, BY_NAME[stored])
        return self._narrowest.name if narrower else None


_SHORT = {
    "fp8": "float8_e5m2",
    "float8": "float8_e5m2",
    "bf16": "bfloat16",
    "fp16": "float16",
    "half": "float16",
    "fp32": "float32",
    "fp64": "float64",
}


def with_computed(precision: str | None, names: Iterable[str]) -> str:
    """The manifest's `run.precision`: the user's, and the coarsest type of `names`, in which the
    run has computed something, if the user names none as coarse."""
    known, found = {**BY_NAME, TF32.name: TF32}, coarsest(names)
    if not precision:
        return found
    items = [item.strip().lower().removeprefix("torch.") for item in precision.split(",")]
    told = [known[name] for item in items if (name := _SHORT.get(item, item)) in known]
    if any(not _narrower(known[found], dtype) for dtype in told if dtype.epsilon is not None):
        return precision
    return f"{precision}, {found}"


def coarsest(names: Iterable[str]) -> str:
    """The name of the floating-point type with the largest epsilon; "tf32" may be among them."""
    known = {**BY_NAME, TF32.name: TF32}
    return max(names, key=lambda name: (known[name].epsilon or 0.0, name))


def _narrower(one: Dtype, other: Dtype | None) -> bool:
    if one.epsilon is None:
        return False
    return other is None or other.epsilon is None or one.epsilon > other.epsilon
