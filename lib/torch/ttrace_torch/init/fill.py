"""Fills a model's parameters and buffers with consistent values, each rank its own shards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import torch

from ttrace_torch.base.names import ROOT, ModelNames, check_name, matching, nearest
from ttrace_torch.errors import TraceError
from ttrace_torch.init.consistent import check_determined, consistent_values
from ttrace_torch.layout.dtensor import local_tensor_of, storage_of
from ttrace_torch.layout.local_layout import LocalLayout, local_layout_of
from ttrace_torch.layout.meshes import Meshes
from ttrace_torch.layout.placements import Placements
from ttrace_torch.layout.placing import place
from ttrace_torch.layout.shapes import check_local_shape

# Endings of the names of one-dimensional factors, whose mean is 1.
_FACTORS = ("weight", "gamma", "scale", "running_var")


def usual_mean(name: str, ndim: int) -> float:
    """The mean of a tensor: 1 for norms' weights and running variances, else 0.

    ndim: number of dimensions of the whole tensor.
    """
    last = name.rpartition(".")[2]
    return 1.0 if ndim <= 1 and last.endswith(_FACTORS) else 0.0


def fill(
    names: ModelNames,
    parameters: Mapping[str, Placements],
    meshes: Meshes,
    rank: int,
    seed: int,
    std: float,
    skip: Iterable[str] = (),
    rename: Callable[[str], str] | None = None,
) -> None:
    """Fills every floating-point parameter and persistent buffer in place, see `consistent_init`.

    parameters: canonical name -> placements of the parameter. Buffers are replicated.
    """
    tensors: dict[str, tuple[torch.Tensor, Placements]] = {
        name: (parameter, parameters[name]) for name, parameter in names.parameters.items()
    }
    tensors.update((name, (buffer, {})) for name, buffer in _persistent_buffers(names))
    left = _matched(skip, tensors)
    for name, (tensor, placements) in tensors.items():
        if name in left or not tensor.is_floating_point():
            continue
        there = name if rename is None else check_name(rename(name), "parameter")
        what = f"{name} on rank {rank}"
        layout = _local_layout(tensor, placements, meshes, rank, what)
        if layout is not None:
            mean = usual_mean(there, len(layout.shape))
            _write(tensor, layout, consistent_values(there, layout, mean, std, seed), what)


def _persistent_buffers(names: ModelNames) -> Iterator[tuple[str, torch.Tensor]]:
    """Canonical name and tensor of each buffer that is saved with the model, once."""
    seen: set[int] = set()
    for module_name, module in names.modules.items():
        for local, buffer in module.named_buffers(recurse=False):
            if local not in module._non_persistent_buffers_set and id(buffer) not in seen:
                seen.add(id(buffer))
                name = local if module_name == ROOT else f"{module_name}.{local}"
                yield check_name(name, "buffer"), buffer


def _matched(patterns: Iterable[str], names: Iterable[str]) -> set[str]:
    known, found = list(names), set()
    for pattern in patterns:
        hits = matching(pattern, known)
        if not hits:
            raise TraceError(
                f"skip: {pattern!r} matches no parameter or buffer; " + nearest(pattern, known)
            )
        found.update(hits)
    return found


def _local_layout(
    tensor: torch.Tensor, placements: Placements, meshes: Meshes, rank: int, what: str
) -> LocalLayout | None:
    """The local layout of this rank; None if it holds no element. Throws TraceError as `place`
    does."""
    if type(tensor).__name__ == "FlatParameter" or hasattr(tensor, "_fqns"):
        raise TraceError(
            f"{what} is a flat parameter of FSDP1, whose layout it does not tell; call "
            "consistent_init() before wrapping the model, or use fully_shard"
        )
    if tensor.is_meta:
        raise TraceError(
            f"{what} is on the meta device; call model.to_empty(device=...) before consistent_init"
        )
    local = local_tensor_of(tensor, meshes.default, what)
    if local is None:
        return None
    placed = place(local, placements, "param", meshes, what)
    for axis, placement in placed.placements.items():
        check_determined(placement, f"{what}, axis {axis}")
    layout = local_layout_of(placed.shape, placed.placements, placed.grid, rank, what)
    if layout is not None and layout.window is None:
        where = placed.grid.coordinate(rank)
        shape = local.value.shape
        check_local_shape(placed.shape, shape, placed.placements, placed.grid, where, what)
    return layout


def _write(tensor: torch.Tensor, layout: LocalLayout, values: torch.Tensor, what: str) -> None:
    local = storage_of(tensor).detach()
    if layout.window is not None and local.numel() != values.numel():
        if tuple(local.shape) != layout.array_shape or not local.is_contiguous():
            raise TraceError(
                f"{what} has the shape {list(local.shape)}; a flat part is the range "
                f"{list(layout.window)}, or a contiguous tensor of {list(layout.array_shape)}"
            )
        local = local.view(-1)[slice(*layout.window)]
    with torch.no_grad():
        local.copy_(values.to(local.dtype).reshape(local.shape))
