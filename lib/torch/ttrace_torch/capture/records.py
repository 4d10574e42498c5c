"""A recorded tensor: its key, its entry in the manifest, and the elements to store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Callable, NamedTuple

import torch

from ttrace_torch.base import dtypes
from ttrace_torch.base.dtypes import StepPrecision
from ttrace_torch.layout.placements import Placement, to_json

_NO_MEMBERS: Mapping[str, Any] = MappingProxyType({})


class Key(NamedTuple):
    """The key of a tensor. The format's `copy` is always 0: a tied parameter is recorded once per
    rank.

    microbatch: None for a tensor of the whole step or of several micro-batches.
    """

    step: int
    microbatch: int | None
    kind: str
    name: str
    call: int = 0

    def group(self) -> str:
        """Path of the group of its dataset in the rank's file."""
        path = f"step_{self.step:06d}"
        if self.microbatch is not None:
            path += f"/mb_{self.microbatch:04d}"
        if self.call:
            path += f"/call_{self.call:04d}"
        return f"{path}/{self.kind}"

    def __str__(self) -> str:
        where = f"step {self.step}"
        if self.microbatch is not None:
            where += f", micro-batch {self.microbatch}"
        if self.call:
            where += f", call {self.call}"
        return f"{self.name} · {self.kind} · {where}"


@dataclass
class Record:
    """The facts about a recorded tensor that go into the manifest.

    stored: element type in the file.
    position: position of a module's value, if its name does not give it.
    """

    key: Key
    stored: torch.dtype
    shape: list[int]
    placements: dict[str, Placement]
    order: int
    mesh: str = ""
    microbatches: dict[str, Any] | None = None
    scale: float = 1.0
    members: Mapping[str, Any] = field(default_factory=lambda: _NO_MEMBERS)
    position: int | None = None

    def same_shard(self, other: Record) -> bool:
        """Whether both describe the same shard, so that their values may be added up."""
        return (
            self.shape == other.shape
            and self.mesh == other.mesh
            and self.placements == other.placements
            and self.microbatches == other.microbatches
        )

    @property
    def dtype(self) -> str:
        """Name of the element type."""
        return dtypes.DTYPES[self.stored].name

    def facts(self, precision: StepPrecision) -> tuple[Any, ...]:
        """What the entry says besides name and order. Not all of it may have a hash."""
        key = self.key
        # Only of these kinds does it depend on the name.
        named = key.kind in ("input", "grad_output")
        return (
            *key[:3],
            key.call,
            self.stored,
            self.mesh,
            self.scale,
            self.position,
            named and precision.computed_in(key.kind, key.name, self.dtype),
            tuple(self.shape),
            tuple(self.placements.items()),
            tuple(self.members.items()),
            None if self.microbatches is None else tuple(self.microbatches.items()),
        )

    def entry(self, precision: StepPrecision) -> dict[str, Any]:
        """The record's entry in the manifest, without members that have their default."""
        key = self.key
        entry: dict[str, Any] = {"name": key.name, "kind": key.kind, "step": key.step}
        if key.microbatch is not None:
            entry["microbatch"] = key.microbatch
        if key.call:
            entry["call"] = key.call
        if self.microbatches is not None:
            entry["microbatches"] = self.microbatches
        entry["dtype"] = self.dtype
        entry["shape"] = self.shape
        if self.mesh:
            entry["mesh"] = self.mesh
        if self.placements:
            entry["placements"] = to_json(self.placements)
        if self.scale != 1.0 and self.stored.is_floating_point:
            entry["scale"] = self.scale
        computed_in = precision.computed_in(key.kind, key.name, self.dtype)
        if computed_in is not None:
            entry["computed_in"] = computed_in
        entry.update(self.members)
        entry["order"] = self.order
        if self.position is not None:
            entry["position"] = self.position
        return entry


class Stored(NamedTuple):
    """The elements that the rank's file gets for its shard of a tensor.

    value: the tensor to write.
    members: further members of the manifest's entry, equal on all ranks.
    """

    value: torch.Tensor
    members: Mapping[str, Any] = _NO_MEMBERS


def whole(part: torch.Tensor) -> Stored:
    """All elements of the rank's shard, in their own type; complex ones as their two parts, in a
    last dimension that no placement names."""
    if part.dtype.is_complex:
        return Stored(torch.view_as_real(part.resolve_conj()), {"complex": True})
    return Stored(part)


# Takes a record, the tensor to store, and whether to add it to the values already stored under the
# record's key. Copies the tensor before it returns.
Sink = Callable[[Record, torch.Tensor, bool], None]
