"""Finds the parameters that a job changes by hand: before its optimizer's step, as one that looks
ahead (SAM), behind it, as one that clamps, normalises or decays weights, or parameters that no
optimizer trains, as a slow copy of others. The optimizer alone does not make such an update.

Many write to `parameter.data`, which torch does not count: only the bits tell.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from ttrace_torch.base.names import ModelNames
from ttrace_torch.layout.dtensor import storage_of
from ttrace_torch.optimizer.several import OptimizersWatch
from ttrace_torch.optimizer.watch import OptimizerWatch

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class RewrittenParameters:
    """Compares what a step begins with with what the optimizer begins with, and what that leaves
    with what the step leaves.

    names: the parameters that the current step has changed by hand.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        self._parameters: dict[str, torch.Tensor] = {}
        # Watch of an optimizer -> the parameters that it changes where they lie. What has a master
        # is written by the job, behind the optimizer's step.
        self._updated: dict[Any, set[str]] = {}
        self._left: dict[str, torch.Tensor] = {}

    def begin(self, names: ModelNames, watch: Any, wanted: bool) -> None:
        """Notes that a step begins.

        watch: follows the optimizer; None without one.
        wanted: whether the step records what it leaves in parameters.
        """
        self.names, self._parameters, self._updated, self._left = set(), {}, {}, {}
        if not wanted:
            return
        self._parameters = dict(names.parameters)
        held = (watch.held(names) if watch is not None else None) or set(self._parameters)
        trained = {n for n, one in self._parameters.items() if one.requires_grad and n in held}
        by_id = {id(one): name for name, one in self._parameters.items() if name in trained}
        parts = watch.parts if isinstance(watch, OptimizersWatch) else [watch]
        for part in parts:
            if isinstance(part, OptimizerWatch):
                of_groups = (id(one) for one in part.tensors())
                self._updated[part] = {by_id[one] for one in of_groups if one in by_id}
        self._note((set(self._parameters) - trained).union(*self._updated.values()))

    def begin_update(self, part: Any) -> None:
        """Notes that an optimizer begins its step. part: its watch."""
        self.compare(self._updated.get(part, ()))

    def end_update(self, part: Any) -> None:
        """Notes that an optimizer has made its step. part: its watch."""
        self._note(self._updated.get(part, ()))

    def compare(self, names: Iterable[str]) -> None:
        """Compares parameters with what was noted of them, as far as it was."""
        for name in names:
            left = self._left.pop(name, None)
            now = None if left is None else _sum_of_bits(self._parameters[name])
            if left is not None and now is not None and bool(left != now):
                self.names.add(name)

    def _note(self, names: Iterable[str]) -> None:
        """Notes what nothing but the job's own hand may change from now on."""
        for name in names:
            bits = _sum_of_bits(self._parameters[name])
            if bits is not None:
                self._left[name] = bits


def _sum_of_bits(parameter: torch.Tensor) -> torch.Tensor | None:
    """The sum of the memory as integers, modulo 2^64. It misses most changes of the order. None if
    the parameter holds no elements, or keeps them in a way of its own."""
    try:
        local = storage_of(parameter.detach())
        if local.layout != torch.strided or local.numel() == 0 or local.is_meta:
            return None
        if local.is_complex():
            local = torch.view_as_real(local.resolve_conj())
        # torch sums 64-bit integers thirty times as fast as narrower ones.
        offset = local.storage_offset() * local.element_size()
        if local.is_contiguous() and local.nbytes % 8 == 0 and offset % 8 == 0:
            return local.view(-1).view(torch.int64).sum()
        return local.view(_INTEGERS[local.element_size()]).sum(dtype=torch.int64)
    except Exception:  # noqa: BLE001 - of a tensor of the user's own class anything may fail
        return None
