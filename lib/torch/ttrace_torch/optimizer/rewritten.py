"""Finds the parameters that a job changes by hand: before its optimizer's step, as one that looks
ahead (SAM), behind it, as one that clamps, normalises or decays weights, or parameters that no
optimizer trains, as a slow copy of others. The optimizer alone does not make such an update.

Many write to `parameter.data`, which torch does not count: only the bits tell.
"""

from __future__ import annotations

import torch

from ttrace_torch.layout.dtensor import storage_of

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class RewrittenParameters:
    """Compares what a step begins with with what the optimizer begins with, and what that leaves
    with what the step leaves.

    names: the parameters that the current step has changed by hand.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        self._left: dict[str, torch.Tensor] = {}

    def begin(self) -> None:
        """Notes that a step begins."""
        self.names = set()
        self._left = {}

    def note(self, name: str, parameter: torch.Tensor) -> None:
        """Notes what nothing but the job's own hand may change from now on."""
        bits = _sum_of_bits(parameter)
        if bits is not None:
            self._left[name] = bits

    def compare(self, name: str, parameter: torch.Tensor) -> None:
        """Compares a parameter with what was noted of it, if it was."""
        left = self._left.pop(name, None)
        now = None if left is None else _sum_of_bits(parameter)
        if left is not None and now is not None and bool(left != now):
            self.names.add(name)


def _sum_of_bits(parameter: torch.Tensor) -> torch.Tensor | None:
    """The sum of the memory as integers, modulo 2^64. It misses most changes of the order. None if
    the parameter holds no elements, or keeps them in a way of its own."""
    local = storage_of(parameter.detach())
    if local.layout != torch.strided or local.numel() == 0:
        return None
    if local.is_complex():
        local = torch.view_as_real(local.resolve_conj())
    try:
        # torch sums 64-bit integers thirty times as fast as narrower ones.
        offset = local.storage_offset() * local.element_size()
        if local.is_contiguous() and local.nbytes % 8 == 0 and offset % 8 == 0:
            return local.view(-1).view(torch.int64).sum()
        return local.view(_INTEGERS[local.element_size()]).sum(dtype=torch.int64)
    except (KeyError, NotImplementedError, RuntimeError):
        return None
