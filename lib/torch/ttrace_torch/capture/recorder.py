"""What is recorded in a step: one record per tensor key. The values go to a sink at once."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Callable, NamedTuple

import torch

from ttrace_torch.base import dtypes
from ttrace_torch.base.dtypes import StepPrecision
from ttrace_torch.capture.selection import WritingRanks
from ttrace_torch.errors import TraceError
from ttrace_torch.layout.dtensor import local_tensor_of
from ttrace_torch.layout.meshes import Meshes
from ttrace_torch.layout.placements import Flat, Placement, Placements, to_json
from ttrace_torch.layout.placing import Placed, place
from ttrace_torch.layout.shapes import check_local_shape


class Key(NamedTuple):
    """A tensor key; `copy` is always 0, since a tied parameter is recorded once per rank.

    microbatch: None for what belongs to the whole step or to several micro-batches.
    """

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
    """A recorded tensor: what the manifest says of it.

    stored: type of the elements.
    position: of a module's value, where its name does not tell it.
    """

    key: Key
    stored: torch.dtype
    shape: list[int]
    placements: dict[str, Placement]
    order: int
    mesh: str = ""
    microbatches: dict[str, Any] | None = None
    scale: float = 1.0
    members: dict[str, Any] = field(default_factory=dict)
    position: int | None = None

    def lies_as(self, other: Record) -> bool:
        """Whether the two are the same part of tensors that may be added up."""
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


# Takes a record, what is stored of its tensor, and whether that is to be added to what the same key
# has already; copies the tensor before it returns.
Sink = Callable[[Record, torch.Tensor, bool], None]


class Recorder:
    """The records of one step on one rank."""

    def __init__(
        self,
        meshes: Meshes,
        rank: int,
        kinds: Iterable[str],
        skipped: set[str],
        sink: Sink,
        scales: Mapping[str, float] | None = None,
        writing: WritingRanks | None = None,
    ) -> None:
        """`skipped` collects, over all steps, what has no dtype in the format.

        sink: where the values go.
        scales: kind -> what its tensors are to be multiplied by; the manifest says so.
        writing: which ranks record, all by default.
        """
        self.precision = StepPrecision()
        self.records: dict[Key, Record] = {}
        self._meshes = meshes
        self._rank = rank
        self._sink = sink
        self._writing = writing or WritingRanks(None)
        # Without its index, a tensor cut by rows cannot be read.
        self._kinds = frozenset([*kinds, "index"] if self._writing.takes(rank) else [])
        self._skipped = skipped
        self._scales = dict(scales or {})

    def wants(self, kind: str) -> bool:
        """Whether tensors of that kind are recorded at all."""
        return kind in self._kinds

    def next_call(self, key: Key) -> Key:
        """`key` with the first call number that is free."""
        while key in self.records:
            key = key._replace(call=key.call + 1)
        return key

    def add(
        self,
        key: Key,
        tensor: torch.Tensor,
        placements: Placements,
        accumulate: bool = False,
        microbatches: dict[str, Any] | None = None,
        position: int | None = None,
    ) -> None:
        """Has `tensor`, of any device and layout, stored under `key`.

        accumulate: a second tensor under the same key is added to the first, as autograd would.
        microbatches: what a tensor of several micro-batches is of theirs, as the manifest says it.
        position: of a module's value its number, where its name does not tell it.
        Throws TraceError where the placements do not fit the tensor or the key is taken.
        """
        if key.kind not in self._kinds:
            return
        what = f"{key} on rank {self._rank}"
        local = local_tensor_of(tensor, self._meshes.default, what)
        if local is None:
            return
        if dtypes.of(local.value) is None or local.value.is_meta:
            self._skip(key, local.value)
            return
        placed = place(local, placements, key.kind, self._meshes, what)
        if not self._holds(placed):
            return
        coordinate = placed.grid.coordinate(self._rank)
        value = _flat_part(local.value, placed.placements, coordinate)
        check_local_shape(
            placed.shape, value.shape, placed.placements, placed.grid, coordinate, what
        )
        self._writing.check(placed, coordinate, what)
        stored = whole(value)
        record = Record(
            key,
            stored.value.dtype,
            placed.shape,
            placed.placements,
            len(self.records),
            placed.mesh,
            microbatches,
            self._scales.get(key.kind, 1.0),
            stored.members,
            position,
        )
        earlier = self.records.setdefault(key, record)
        if earlier is not record and not (accumulate and earlier.lies_as(record)):
            raise TraceError(
                f"{what}: recorded twice; every micro-batch of a step needs a "
                "`with tracer.microbatch(n)` with a number of its own, every optimizer step a "
                "`with tracer.step(n)`"
            )
        self._sink(earlier, stored.value, earlier is not record)

    def _holds(self, placed: Placed) -> bool:
        """Whether this rank holds a part at all."""
        if not placed.grid.holds(self._rank):
            return False
        coordinate = placed.grid.coordinate(self._rank)
        return all(
            placement.holds(coordinate[axis]) for axis, placement in placed.placements.items()
        )

    def leave_out(self, kind: str, name: str, tensor: torch.Tensor) -> None:
        """Notes that a tensor is not recorded, since nothing tells how it lies."""
        self._skipped.add(f"{kind} {name} {str(tensor.dtype).split('.')[-1]}")

    def _skip(self, key: Key, tensor: torch.Tensor) -> None:
        module = key.name.split("[")[0]
        if not any(entry.split(" ")[1].split("[")[0] == module for entry in self._skipped):
            warnings.warn(
                f"{key}: {tensor.dtype} on {tensor.device} has no type in the trace format; not "
                "recorded, as nothing of this kind will be from this module",
                stacklevel=2,
            )
        self.leave_out(key.kind, key.name, tensor)


def _flat_part(
    value: torch.Tensor, placements: Mapping[str, Placement], coordinate: Mapping[str, int]
) -> torch.Tensor:
    """The local tensor in one dimension, where a placement is flat: the range or what it is of."""
    for axis, placement in placements.items():
        if isinstance(placement, Flat):
            return placement.local_values(value, coordinate[axis])
    return value


@dataclass(frozen=True)
class Stored:
    """What the rank's file gets for its part of a tensor.

    value: the tensor whose elements are written.
    members: what the manifest's entry says of it beyond the defaults; equal on all ranks.
    """

    value: torch.Tensor
    members: dict[str, Any] = field(default_factory=dict)


def whole(part: torch.Tensor) -> Stored:
    """All elements of the rank's part, in their own type. Nothing else is chosen so far."""
    return Stored(part)
