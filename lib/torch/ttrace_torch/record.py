"""What has been recorded: one record per tensor key, in memory until the step ends."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from ttrace_torch import dtypes, shapes
from ttrace_torch.dtensor import local_part
from ttrace_torch.errors import TraceError
from ttrace_torch.layout import Mesh, Only, Placement, Placements
from ttrace_torch.precision import StepPrecision

KINDS = (
    "param",
    "input",
    "output",
    "loss",
    "grad_output",
    "param_grad",
    "main_grad",
    "grad_norm",
    "param_after_step",
    "scalar",
)


class Key(NamedTuple):
    """A tensor key; `copy` is always 0, since a tied parameter is recorded once per rank."""

    step: int
    microbatch: int | None
    kind: str
    name: str
    call: int = 0

    def __str__(self) -> str:
        where = f"step {self.step}"
        if self.microbatch is not None:
            where += f", micro-batch {self.microbatch}"
        if self.call:
            where += f", call {self.call}"
        return f"{self.name} · {self.kind} · {where}"


@dataclass
class Record:
    """A recorded tensor: a CPU copy of the local part, and what the manifest says of the whole."""

    key: Key
    data: torch.Tensor
    shape: list[int]
    placements: dict[str, Placement]
    order: int

    @property
    def dtype(self) -> str:
        """Name of the element type."""
        return dtypes.DTYPES[self.data.dtype].name

    def dataset(self) -> str:
        """Path of the dataset in the rank's file."""
        key = self.key
        path = f"step_{key.step:06d}"
        if key.microbatch is not None:
            path += f"/mb_{key.microbatch:04d}"
        if key.call:
            path += f"/call_{key.call:04d}"
        return f"{path}/{key.kind}/{key.name}"

    def entry(self, precision: StepPrecision) -> dict[str, Any]:
        """The record's entry in the manifest; members that have their default are left out."""
        key = self.key
        entry: dict[str, Any] = {"name": key.name, "kind": key.kind, "step": key.step}
        if key.microbatch is not None:
            entry["microbatch"] = key.microbatch
        if key.call:
            entry["call"] = key.call
        entry["dtype"] = self.dtype
        entry["shape"] = self.shape
        if self.placements:
            entry["placements"] = shapes.to_json(self.placements)
        computed_in = precision.computed_in(key.kind, key.name, self.dtype)
        if computed_in is not None:
            entry["computed_in"] = computed_in
        entry["order"] = self.order
        return entry


class Recorder:
    """The records of one step on one rank."""

    def __init__(self, mesh: Mesh, rank: int, kinds: Iterable[str], skipped: set[str]) -> None:
        """`skipped` collects, over all steps, what has no dtype in the format."""
        self.precision = StepPrecision()
        self.records: dict[Key, Record] = {}
        self._mesh = mesh
        self._rank = rank
        self._coordinate = mesh.coordinate(rank)
        self._kinds = frozenset(kinds)
        self._skipped = skipped

    def wants(self, kind: str) -> bool:
        """Whether tensors of that kind are recorded at all."""
        return kind in self._kinds

    def next_call(self, key: Key) -> Key:
        """`key` with the first call number that is free."""
        while key in self.records:
            key = key._replace(call=key.call + 1)
        return key

    def add(
        self, key: Key, tensor: torch.Tensor, placements: Placements, accumulate: bool = False
    ) -> None:
        """Copies `tensor`, of any device and layout, under `key`.

        accumulate: a second tensor under the same key is added to the first, as autograd would.
        Throws TraceError where the placements do not fit the tensor or the key is taken.
        """
        if key.kind not in self._kinds:
            return
        what = f"{key} on rank {self._rank}"
        local = local_part(tensor, self._mesh, what)
        if dtypes.of(local.value) is None or local.value.is_meta:
            self._skip(key, local.value)
            return
        placed = shapes.normalised(
            {**placements, **local.placements}, len(local.shape), self._mesh, what
        )
        if any(
            isinstance(placement, Only) and placement.coordinate != self._coordinate[axis]
            for axis, placement in placed.items()
        ):
            return
        # A DTensor's shape is whole on its own axes already; a layout may cut further ones.
        cut_further = {a: p for a, p in placed.items() if a not in local.placements}
        whole = shapes.whole_shape(local.shape, cut_further, self._mesh, what)
        shapes.check_local_shape(
            whole, local.value.shape, placed, self._mesh, self._coordinate, what
        )
        data = cpu_copy(local.value)
        earlier = self.records.get(key)
        if earlier is None:
            self.records[key] = Record(key, data, whole, placed, len(self.records))
        elif accumulate and earlier.shape == whole and earlier.placements == placed:
            earlier.data += data
        else:
            raise TraceError(
                f"{what}: recorded twice; every micro-batch of a step needs a "
                "`with tracer.microbatch(n)` with a number of its own, every optimizer step a "
                "`with tracer.step(n)`"
            )

    def _skip(self, key: Key, tensor: torch.Tensor) -> None:
        module = key.name.split("[")[0]
        if not any(entry.split(" ")[1].split("[")[0] == module for entry in self._skipped):
            warnings.warn(
                f"{key}: {tensor.dtype} on {tensor.device} has no type in the trace format; not "
                "recorded, as nothing of this kind will be from this module",
                stacklevel=2,
            )
        self._skipped.add(f"{key.kind} {key.name} {str(tensor.dtype).split('.')[-1]}")


def cpu_copy(tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous CPU copy that shares no memory with `tensor`."""
    tensor = tensor.detach()
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    if tensor.device.type != "cpu":
        return tensor.to("cpu").contiguous().resolve_neg()
    return tensor.clone(memory_format=torch.contiguous_format).resolve_neg()
