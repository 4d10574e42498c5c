"""DTensors: their local tensor, their placements and their device mesh. Never communicates."""

from __future__ import annotations

import sys
from collections.abc import Container
from itertools import combinations
from typing import Any, NamedTuple

import torch

from ttrace_torch.errors import TraceError
from ttrace_torch.layout.device_mesh import grid_of
from ttrace_torch.layout.mesh import Mesh
from ttrace_torch.layout.placements import Partial, Placement, Replicate, Shard, Strided

REDUCTIONS = {"sum": "sum", "avg": "mean", "mean": "mean", "max": "max"}


class LocalTensor(NamedTuple):
    """A rank's local tensor.

    value: the plain local tensor.
    shape: shape of the DTensor; the local shape of a plain tensor.
    placements: placements on the axes of the device mesh, in their order; empty for a plain tensor.
    grid: the device mesh; None for a plain tensor.
    """

    value: torch.Tensor
    shape: tuple[int, ...]
    placements: dict[str, Placement]
    grid: Mesh | None


def local_tensor_of(tensor: torch.Tensor, mesh: Mesh, what: str) -> LocalTensor | None:
    """The local tensor of `tensor`, plain or DTensor: detached, and complete if asynchronous.

    Returns None if this rank is not in the DTensor's mesh. Throws TraceError for a placement that
    the format lacks, and for a device mesh without axis names that is not `mesh`.
    """
    if not is_dtensor(tensor):
        return plain_tensor(tensor)
    dtensor: Any = tensor
    if dtensor.device_mesh.get_coordinate() is None:
        return None
    grid = grid_of(dtensor.device_mesh, mesh, what)
    placements = {
        axis: placement_of(placement, tensor.dim(), f"{what} on axis {axis}")
        for axis, placement in zip(grid.axes, dtensor.placements)
    }
    with torch.no_grad():
        value = _arrived(dtensor.to_local().detach())
        for placement in dtensor.placements:
            value = _masked(value, placement)
    return LocalTensor(value, tuple(dtensor.shape), placements, grid)


def plain_tensor(tensor: torch.Tensor) -> LocalTensor:
    """The local tensor of a tensor that is no DTensor."""
    value = _arrived(tensor.detach())
    return LocalTensor(value, tuple(value.shape), {}, None)


def storage_of(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor whose storage holds the values: `tensor` itself, or the local tensor of a
    DTensor."""
    return getattr(tensor, "_local_tensor", tensor) if is_dtensor(tensor) else tensor


def lines_of(tensor: torch.Tensor) -> list[tuple[Any, tuple[int, ...]]]:
    """The placements of a DTensor, each with the ranks along its axis through this rank."""
    dtensor: Any = tensor
    mesh = dtensor.device_mesh
    place = mesh.get_coordinate()
    if place is None:
        return []
    found = []
    for axis, placement in enumerate(dtensor.placements):
        where = tuple(slice(None) if dim == axis else at for dim, at in enumerate(place))
        found.append((placement, tuple(mesh.mesh[where].tolist())))
    return found


def differentiable_local(tensor: torch.Tensor) -> torch.Tensor:
    """The local tensor of a DTensor, connected to its graph."""
    dtensor: Any = tensor
    # The gradient of a sum is equal for every term.
    replicate = _dtensor_module().Replicate()
    gradients = [replicate if p.is_partial() else p for p in dtensor.placements]
    local: torch.Tensor = dtensor.to_local(grad_placements=gradients)
    return local


def with_local(tensor: torch.Tensor, local: torch.Tensor) -> torch.Tensor:
    """A DTensor with the mesh, placements and shape of `tensor` and the local tensor `local`."""
    dtensor: Any = tensor
    meta = {"shape": dtensor.shape, "stride": dtensor.stride()}
    result: torch.Tensor = _dtensor_module().DTensor.from_local(
        local, dtensor.device_mesh, dtensor.placements, run_check=False, **meta
    )
    return result


def reduced_like(tensor: torch.Tensor, local: torch.Tensor, name: str) -> torch.Tensor | None:
    """The plain tensor `local`, which a rank has computed from its part of the DTensor `tensor` or
    from all of it, with its placements; None if its shape does not tell how it lies.

    It has the part's shape, or lacks dimensions of it, or has 1 in their place: these were reduced.
    Where a mesh axis cuts a reduced dimension, or `local` was made from all of `tensor`, all ranks
    should have the same. A square part may lack either dimension: factored optimizers call a mean
    over the last one `row`, and a mean over the first one `col`.
    """
    dtensor: Any = tensor
    kept = _kept_dims(local.shape, storage_of(tensor).shape, name)
    if kept is None:
        return None if _kept_dims(local.shape, tensor.shape, name) is None else local
    shape = [tensor.shape[d] if d in kept else 1 for d in range(tensor.dim())]
    if local.dim() < tensor.dim():
        shape = [tensor.shape[d] for d in kept]
    cuts = [placement for placement in dtensor.placements if not placement.is_replicate()]
    module = _dtensor_module()
    if any(type(placement) is not module.Shard for placement in cuts):
        return None
    placements = [
        module.Shard(kept[placement.dim])
        if placement.is_shard() and placement.dim in kept
        else module.Replicate()
        for placement in dtensor.placements
    ]
    strides = torch.empty(shape, device="meta").stride()
    result: torch.Tensor = module.DTensor.from_local(
        local,
        dtensor.device_mesh,
        placements,
        run_check=False,
        shape=torch.Size(shape),
        stride=strides,
    )
    return result


def _kept_dims(reduced: torch.Size, whole: torch.Size, name: str) -> dict[int, int] | None:
    """The dimensions that are left of `whole`, each with its number in `reduced`; None if the sizes
    do not tell."""
    if len(reduced) == len(whole):
        one = [size == 1 != whole[d] for d, size in enumerate(reduced)]
        fits = all(size == whole[d] or one[d] for d, size in enumerate(reduced))
        return {d: d for d in range(len(whole)) if not one[d]} if fits else None
    choices = [
        dims
        for dims in combinations(range(len(whole)), len(reduced))
        if reduced == torch.Size([whole[d] for d in dims])
    ]
    lacks_last = name.endswith("row")
    if len(choices) > 1 and (lacks_last or name.endswith("col")):
        choices = [c for c in choices if (c == tuple(range(len(reduced)))) == lacks_last]
    return {d: turn for turn, d in enumerate(choices[0])} if len(choices) == 1 else None


def with_terms(tensor: torch.Tensor, axes: Container[str]) -> torch.Tensor:
    """A DTensor that is replicated over some of the mesh's `axes`, as terms of a sum over these."""
    dtensor: Any = tensor
    names = dtensor.device_mesh.mesh_dim_names or ()
    module = _dtensor_module()
    placements = [
        module.Partial() if axis in axes and placement.is_replicate() else placement
        for axis, placement in zip(names, dtensor.placements)
    ]
    if not names or tuple(placements) == tuple(dtensor.placements):
        return tensor
    meta = {"shape": dtensor.shape, "stride": dtensor.stride()}
    result: torch.Tensor = module.DTensor.from_local(
        storage_of(tensor), dtensor.device_mesh, placements, run_check=False, **meta
    )
    return result


def _dtensor_module() -> Any:
    # Imported already, since a DTensor exists. The first releases have it under another name.
    return sys.modules.get("torch.distributed.tensor") or sys.modules["torch.distributed._tensor"]


def is_dtensor(tensor: torch.Tensor) -> bool:
    """Whether `tensor` is a DTensor, from whichever module this release of torch has it in."""
    if type(tensor) in (torch.Tensor, torch.nn.Parameter):
        return False
    # A DTensor exists only if its module has been imported, so no import is needed.
    for name in ("torch.distributed.tensor", "torch.distributed._tensor"):
        cls = getattr(sys.modules.get(name), "DTensor", None)
        if cls is not None and isinstance(tensor, cls):
            return True
    return False


def _arrived(tensor: torch.Tensor) -> torch.Tensor:
    """Waits for the result of an asynchronous collective; returns other tensors unchanged."""
    if type(tensor).__name__ == "AsyncCollectiveTensor":
        arrived: torch.Tensor = tensor.wait()  # type: ignore[attr-defined]
        return arrived
    return tensor


def _masked(value: torch.Tensor, placement: Any) -> torch.Tensor:
    """The local output of a vocabulary-parallel embedding, with the rows of other ranks' words
    zeroed.

    DTensor zeroes them in the reduction. Until then they hold another word's row, and the terms do
    not add up to the whole.
    """
    buffer = getattr(placement, "mask_buffer", None)
    if buffer is None or getattr(buffer, "data", None) is None:
        return value
    value = value.clone()
    buffer.apply_mask(value)
    return value


def placement_of(placement: Any, ndim: int, what: str) -> Placement:
    """The format's placement for a DTensor's. Throws TraceError if there is none."""
    kind = type(placement).__name__
    # Tested before Shard: some releases make it a subclass, and it cuts in another order.
    if kind == "_StridedShard":
        dim, factor = placement.dim % ndim, int(placement.split_factor)
        return Shard(dim) if factor == 1 else Strided(dim, factor)
    if placement.is_shard():
        return Shard(placement.dim % ndim)
    if placement.is_replicate():
        return Replicate()
    if placement.is_partial():
        # A string in current releases, an enumeration of torch.distributed in the first ones.
        name = str(getattr(placement, "reduce_op", None)).rpartition(".")[2].lower()
        reduction = REDUCTIONS.get(name)
        if reduction is not None and kind != "_NormPartial":
            return Partial(reduction)
    raise TraceError(
        f"{what}: placement {placement} has no word in the trace format; redistribute the tensor, "
        "or call full_tensor() on it, before it is recorded"
    )
