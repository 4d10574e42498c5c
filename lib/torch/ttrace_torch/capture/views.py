"""Module outputs that are views, and their gradients once they are overwritten in place.

A write into a view goes into the history of its base, and the view's own node leaves the graph: a
hook on it never fires, and a walk over the graph never meets it. A linear layer's output can be
such a view (of the matrix product), and an in-place activation often follows. So hooks and data
flow use the base as well.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ttrace_torch.layout.dtensor import is_dtensor, storage_of


def own_base(tensor: torch.Tensor, inputs: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """The base tensor of which a module's output is a view of all elements; None if it has none.

    A base that belongs to one of the module's inputs does not count: other tensors may share it.
    """
    if is_dtensor(tensor) or not tensor._is_view():
        return None
    base = tensor._base
    if base is None or base.grad_fn is None or base.numel() != tensor.numel():
        return None
    if not base.is_contiguous() or any(_same_storage(base, given) for given in inputs):
        return None
    return base


class ViewOf:
    """A view's place in its contiguous base, without references to either."""

    def __init__(self, view: torch.Tensor, base: torch.Tensor) -> None:
        self._size = tuple(view.size())
        self._stride = tuple(view.stride())
        self._offset = int(view.storage_offset()) - int(base.storage_offset())

    def of(self, gradient: torch.Tensor) -> torch.Tensor:
        """The view of the base's `gradient` that corresponds to the view of the base."""
        return gradient.contiguous().as_strided(self._size, self._stride, self._offset)


def _same_storage(one: torch.Tensor, other: torch.Tensor) -> bool:
    other = storage_of(other)
    if other.layout != torch.strided:
        return False
    same: bool = one.untyped_storage()._cdata == other.untyped_storage()._cdata
    return same
