"""compare_tensors(): the verdict of `ttrace compare` on tensors that are in memory."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

import torch
import torch.utils.dlpack

from ttrace_torch.base import dtypes
from ttrace_torch.compare import library
from ttrace_torch.errors import TraceError

# A tensor, anything that speaks DLPack (NumPy, JAX, CuPy), or several by name.
Tensors = Union[torch.Tensor, Mapping[str, Any], Any]

_CPU, _CUDA = 1, 2  # DLPack's DLDeviceType
_UNUSABLE = 2


@dataclass(frozen=True)
class Compared:
    """What `ttrace compare` says of two sets of tensors."""

    exit_code: int  # 0 match, 1 diverged, 3 inconclusive
    report: dict[str, Any]  # schemas/answer-v1.md

    @property
    def matches(self) -> bool:
        return self.exit_code == 0

    @property
    def verdict(self) -> str:
        """ "match", "diverged" or "inconclusive"."""
        return str(self.report["verdict"])

    def __getitem__(self, name: str) -> dict[str, Any]:
        """The result of one tensor: outcome, error, allowed, max_abs, ..."""
        for result in self.report["results"]:
            if result["key"]["name"] == name:
                return dict(result)
        raise KeyError(name)


def compare_tensors(
    reference: Tensors,
    candidate: Tensors,
    *,
    noise: Sequence[Tensors] = (),
    kind: str = "output",
    threads: int = 0,
) -> Compared:
    """Compares tensors with the statistics, tolerances and verdict of `ttrace compare`.

    Each side is one tensor, or a mapping of names to tensors. `noise`: the same tensors from runs
    of the reference whose input was multiplied by 1 + ε·u; without any, the fallback rule judges.
    `kind` is what they are in a training step ("output", "main_grad", "param", ...). Tensors that
    are dense are read where they are, on the CPU or on a CUDA device, others are copied there.
    Waits for the current streams of the devices that tensors are on. Raises TraceError if they
    cannot be compared at all; a difference is a result."""
    sides = [_Side("the reference", reference, kind), _Side("the candidate", candidate, kind)]
    perturbed = [_Side(f"noise run {i}", run, kind, seed=i + 1) for i, run in enumerate(noise)]
    runs = (library.Run * max(1, len(perturbed)))(*[side.run for side in perturbed])
    request = library.Comparison(
        library.INTERFACE_VERSION, threads, sides[0].run, sides[1].run, runs, len(perturbed)
    )
    functions = library.load()
    answer = ctypes.c_void_p()
    code = functions.ttrace_compare_device(ctypes.byref(request), ctypes.byref(answer))
    if answer.value is None:
        raise MemoryError("compare_tensors: out of memory")
    try:
        text = ctypes.string_at(answer.value).decode()
    finally:
        functions.ttrace_free(answer)
    if code == _UNUSABLE:
        raise TraceError(f"compare_tensors: {text}")
    return Compared(code, json.loads(text))


class _Side:
    """Keeps everything that its `run` points at."""

    def __init__(self, role: str, tensors: Tensors, kind: str, seed: int = 0) -> None:
        named = tensors if isinstance(tensors, Mapping) else {"tensor": tensors}
        self._kind = kind.encode()
        self._kept: list[Any] = []
        described = [self._describe(role, name, value) for name, value in named.items()]
        array = (library.Tensor * max(1, len(described)))(*described)
        self._kept.append(array)
        self.run = library.Run(role.encode(), array, len(described), seed)

    def _describe(self, role: str, name: str, value: Any) -> library.Tensor:
        tensor = _as_torch(role, name, value)
        dtype = dtypes.of(tensor)
        if dtype is None:
            raise TraceError(f"compare_tensors: {role}: {name}: no {tensor.dtype} can be compared")
        shape = (ctypes.c_uint64 * max(1, tensor.dim()))(*tensor.shape)
        self._kept += [tensor, shape]
        return library.Tensor(
            str(name).encode(),
            self._kind,
            dtype.name.encode(),
            shape,
            tensor.dim(),
            *_place_of(tensor),
        )


def _place_of(tensor: torch.Tensor) -> tuple[int, int, int | None]:
    """Type and number of the device, as in DLPack, and the address of the values."""
    kind = _CUDA if tensor.is_cuda else _CPU
    return kind, tensor.device.index or 0, tensor.data_ptr() or None


def _as_torch(role: str, name: str, value: Any) -> torch.Tensor:
    if not isinstance(value, torch.Tensor):
        if not hasattr(value, "__dlpack__"):
            raise TraceError(
                f"compare_tensors: {role}: {name} is a {type(value).__name__}; "
                "give tensors, arrays that speak DLPack, or a mapping of names to them"
            )
        value = torch.utils.dlpack.from_dlpack(value)
    if hasattr(value, "full_tensor"):
        raise TraceError(
            f"compare_tensors: {role}: {name} is a DTensor, of which this process has a part; "
            "give its full_tensor() or its to_local()"
        )
    tensor: torch.Tensor = value.detach().resolve_conj().resolve_neg().contiguous()
    if tensor.device.type not in ("cpu", "cuda"):
        tensor = tensor.cpu()
    if tensor.is_cuda:
        torch.cuda.current_stream(tensor.device).synchronize()  # its values are there
    return tensor
