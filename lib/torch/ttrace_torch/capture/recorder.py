"""Collects one record per tensor key of a step, and passes the values on at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Callable

import torch

from ttrace_torch.base import dtypes
from ttrace_torch.base.dtypes import StepPrecision
from ttrace_torch.base.names import is_name
from ttrace_torch.base.problems import Problems
from ttrace_torch.capture.records import Key, Record, Sink, whole
from ttrace_torch.capture.selection import WritingRanks
from ttrace_torch.errors import TraceError
from ttrace_torch.layout.dtensor import LocalTensor, is_dtensor, local_tensor_of, plain_tensor
from ttrace_torch.layout.meshes import Meshes
from ttrace_torch.layout.placements import Flat, Placement, Placements, Rows, Skip, mesh_name_of
from ttrace_torch.layout.placing import Placed, place
from ttrace_torch.layout.shapes import check_local_shape

# Takes a key, the tensor, whether it is added to an earlier one under the key, and whether it is of
# several micro-batches.
Observer = Callable[[Key, torch.Tensor, bool, bool], None]


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
        observer: Observer | None = None,
        problems: Problems | None = None,
    ) -> None:
        """skipped: collects, over all steps, the tensors without a dtype in the format.
        sink: receives the values.
        scales: kind -> factor that its tensors must be multiplied by, for the manifest.
        writing: the ranks that record, all by default.
        observer: called for every tensor of every kind, also for those that are not stored.
        problems: collects what cannot be recorded.
        """
        self.problems = problems or Problems(rank)
        self.precision = StepPrecision()
        self.records: dict[Key, Record] = {}
        self._meshes = meshes
        self._rank = rank
        self._sink = sink
        self._writing = writing or WritingRanks(None)
        # A tensor placed by `Rows` cannot be read without its index.
        self._kinds = frozenset([*kinds, "index"] if self._writing.takes(rank) else [])
        self._skipped = skipped
        self.scales = dict(scales or {})
        self._observer = observer
        self._observed: set[Key] = set()
        # The indices whose numbers do not ascend on this rank.
        self._shuffled: set[str] = set()
        # What `_part` has found: name of the mesh, placements and local shape -> the answer.
        self._parts: dict[tuple[Any, ...], tuple[Placed, dict[str, int]] | None] = {}

    def set_scale(self, kind: str, scale: float) -> None:
        """Sets the factor that tensors of that kind must be multiplied by."""
        self.scales[kind] = scale

    def rescale(self, kinds: Iterable[str], scale: float) -> None:
        """Multiplies the factor of tensors of these kinds, recorded ones and those to come."""
        for kind in kinds:
            self.scales[kind] = self.scales.get(kind, 1.0) * scale
        for record in self.records.values():
            if record.key.kind in kinds:
                record.scale *= scale

    def wants(self, kind: str) -> bool:
        """Whether tensors of that kind are recorded or observed."""
        return kind in self._kinds or self._observer is not None

    def stores(self, kind: str) -> bool:
        """Whether tensors of that kind are stored."""
        return kind in self._kinds

    def next_call(self, key: Key) -> Key:
        """`key` with the first free call number."""
        while key in self.records or key in self._observed:
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
        observed: bool = True,
    ) -> None:
        """Stores `tensor`, of any device and memory layout, under `key`.

        accumulate: adds a second tensor under the same key to the first, as autograd would.
        microbatches: the manifest's `microbatches`, for a tensor of several.
        position: position of a module's value, if its name does not give it.
        observed: whether the observer is called.

        Never throws. A tensor whose placements do not fit it, or whose key is taken, is left out,
        as is one whose layout says `Skip`.
        """
        try:
            if isinstance(placements, Skip):
                if self.stores(key.kind):
                    self.problems.note(f"*/*/{key.kind}/{key.name}/*/*", placements.why)
                return
            if key.kind == "index" and self._observer is not None and not _ascends(tensor):
                self._shuffled.add(key.name)
            # Rows are compared in the order of their numbers. What computes them in another one
            # says nothing of that.
            if observed and not any(
                isinstance(one, Rows) and one.index in self._shuffled for one in placements.values()
            ):
                self.observe(key, tensor, accumulate, microbatches is not None)
            self._add(key, tensor, placements, accumulate, microbatches, position)
        except Exception as error:
            self.leave_out(key, error)

    def observe(
        self, key: Key, tensor: torch.Tensor, accumulate: bool = False, several: bool = False
    ) -> None:
        """Tells the observer of a tensor."""
        if self._observer is not None:
            self._observed.add(key)
            self._observer(key, tensor, accumulate, several)

    @contextmanager
    def guarded(self, key: Key) -> Iterator[None]:
        """Leaves out a value that the code inside cannot record."""
        try:
            yield
        except Exception as error:
            self.leave_out(key, error)

    def leave_out(self, key: Key, error: Exception) -> None:
        """Notes that a tensor is not recorded because of `error`."""
        if key.kind in self._kinds:
            said = str(error) if isinstance(error, TraceError) else describe(error)
            # The same reason on all ranks and in all steps is one problem.
            reason = said.removeprefix(f"{key} on rank {self._rank}: ")
            self.problems.left_out(key.kind, key.name, reason)

    def _add(
        self,
        key: Key,
        tensor: torch.Tensor,
        placements: Placements,
        accumulate: bool,
        microbatches: dict[str, Any] | None,
        position: int | None,
    ) -> None:
        if key.kind not in self._kinds:
            return
        if not is_name(key.name):
            raise TraceError("a name has 1 to 512 bytes and neither '/' nor control characters")
        if not is_dtensor(tensor):
            local = plain_tensor(tensor)
        else:
            found = local_tensor_of(tensor, self._meshes.default, self._what(key))
            if found is None:
                return
            local = found
        if not dtypes.is_known(local.value) or local.value.is_meta:
            self._skip(key, local.value)
            return
        part = self._part(local, placements, key)
        if part is None:
            return
        placed, coordinate = part
        value = local.value
        if placed.placements:
            value = _flat_part(value, placed.placements, coordinate)
        stored = whole(value)
        shape = [*placed.shape, 2] if stored.members else placed.shape
        record = Record(
            key,
            stored.value.dtype,
            shape,
            placed.placements,
            len(self.records),
            placed.mesh,
            microbatches,
            self.scales.get(key.kind, 1.0),
            stored.members,
            position,
        )
        earlier = self.records.setdefault(key, record)
        if earlier is not record and not (accumulate and earlier.same_shard(record)):
            raise TraceError(
                f"{self._what(key)}: recorded twice, the first one is kept; every micro-batch of a "
                "step needs a `with tracer.microbatch(n)` with a number of its own, every "
                "optimizer step a `with tracer.step(n)`"
            )
        self._sink(earlier, stored.value, earlier is not record)

    def _part(
        self, local: LocalTensor, placements: Placements, key: Key
    ) -> tuple[Placed, dict[str, int]] | None:
        """The placement of a tensor and the coordinate of this rank; None if it holds no part.

        Many plain tensors have one shape and one placement: these are checked once.
        """
        if local.grid is not None:
            return self._checked(local, placements, key)
        facts = (mesh_name_of(placements), *placements.items(), local.shape)
        try:
            return self._parts[facts]
        except KeyError:
            part = self._parts[facts] = self._checked(local, placements, key)
            return part
        except TypeError:  # a placement that the user made of lists
            return self._checked(local, placements, key)

    def _checked(
        self, local: LocalTensor, placements: Placements, key: Key
    ) -> tuple[Placed, dict[str, int]] | None:
        what = self._what(key)
        placed = place(local, placements, key.kind, self._meshes, what)
        if not self._holds(placed):
            return None
        coordinate = placed.grid.coordinate(self._rank)
        part = _flat_part(local.value, placed.placements, coordinate)
        shape = part.shape
        check_local_shape(placed.shape, shape, placed.placements, placed.grid, coordinate, what)
        self._writing.check(placed, coordinate, what)
        return placed, coordinate

    def _what(self, key: Key) -> str:
        return f"{key} on rank {self._rank}"

    def _holds(self, placed: Placed) -> bool:
        """Whether this rank holds the tensor."""
        if not placed.grid.holds(self._rank):
            return False
        coordinate = placed.grid.coordinate(self._rank)
        return all(
            placement.holds(coordinate[axis]) for axis, placement in placed.placements.items()
        )

    def _skip(self, key: Key, tensor: torch.Tensor) -> None:
        self._skipped.add(f"{key.kind} {key.name} {str(tensor.dtype).split('.')[-1]}")
        reason = f"{tensor.dtype} on {tensor.device} has no type in the trace format"
        self.problems.left_out(key.kind, key.name, reason)


def describe(error: BaseException) -> str:
    """One line about an exception that no code expected."""
    return f"the collector failed with {type(error).__name__}: {error}".splitlines()[0]


def _ascends(numbers: torch.Tensor) -> bool:
    """Whether the row numbers ascend; padding does not count."""
    held = plain_tensor(numbers).value
    held = held[held >= 0]
    return bool((held[1:] > held[:-1]).all())


def _flat_part(
    value: torch.Tensor, placements: Mapping[str, Placement], coordinate: Mapping[str, int]
) -> torch.Tensor:
    """The local tensor in one dimension if a placement is flat."""
    for axis, placement in placements.items():
        if isinstance(placement, Flat):
            return placement.local_values(value, coordinate[axis])
    return value
