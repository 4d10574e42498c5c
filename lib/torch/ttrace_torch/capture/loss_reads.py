"""Which micro-batch a recorded number belongs to: that of the losses that read it.

Labels are often recorded where no `microbatch()` is open, before a forward that begins the next
micro-batch, or inside a pipeline schedule. A loss keeps the tensors that it reads for its backward.
These are read in place, without unpacking, so that hooks on saved tensors stay untouched.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from ttrace_torch.base.microbatch import Batch
from ttrace_torch.layout.dtensor import storage_of

# A loss is made of few operations; before them comes the model.
_MOST_NODES = 256
_SAVED = "_raw_saved_"


class Place(NamedTuple):
    """Where the elements of a tensor lie.

    reference: of the storage; it keeps the address from being reused by another one.
    span: the first element, and the number of elements.
    """

    reference: StorageWeakRef
    span: tuple[int, int]


class LossReads:
    """The tensors that the losses of one step read."""

    def __init__(self) -> None:
        self._read: list[tuple[Batch, dict[int, list[Place]]]] = []

    def note(self, loss: torch.Tensor, batch: Batch) -> None:
        """Notes what `loss`, of micro-batch `batch`, was computed from directly."""
        found: dict[int, list[Place]] = {}
        for tensor in _saved_tensors(loss):
            place = place_of(tensor)
            if place is not None:
                found.setdefault(place.reference.cdata, []).append(place)
        self._read.append((batch, found))

    def batches_of(self, place: Place | None) -> list[Batch]:
        """The micro-batches of the losses that read all elements at `place`, each once."""
        if place is None:
            return []
        address = place.reference.cdata
        found = [
            batch
            for batch, read in self._read
            if any(one.span == place.span for one in read.get(address, ()))
        ]
        return list(dict.fromkeys(found))


def _saved_tensors(loss: torch.Tensor) -> Iterator[torch.Tensor]:
    """The tensors that the operations nearest to a loss keep for their backward."""
    nodes = [] if loss.grad_fn is None else [loss.grad_fn]
    seen = set(nodes)
    for node in nodes:
        yield from _kept_by(node)
        for following, _ in node.next_functions:
            if following is not None and following not in seen and len(nodes) < _MOST_NODES:
                seen.add(following)
                nodes.append(following)


def _kept_by(node: Any) -> Iterator[torch.Tensor]:
    for name in _names_of(node):
        try:
            saved = getattr(node, name)
        except RuntimeError:
            return  # its backward has run
        for one in saved if isinstance(saved, (list, tuple)) else (saved,):
            # Releases before 2.6 show no data without unpacking.
            kept = getattr(one, "data", None)
            if isinstance(kept, torch.Tensor):
                yield kept


def _names_of(node: Any) -> list[str]:
    kind = type(node)
    if kind not in _NAMES:
        _NAMES[kind] = [name for name in dir(node) if name.startswith(_SAVED)]
    return _NAMES[kind]


_NAMES: dict[type, list[str]] = {}


def place_of(tensor: torch.Tensor) -> Place | None:
    """Where a tensor lies; None for one without a storage."""
    tensor = storage_of(tensor)
    try:
        reference = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
        return Place(reference, (int(tensor.storage_offset()), tensor.numel()))
    except (NotImplementedError, RuntimeError):
        return None
