"""Placements of plain local tensors in a tensor-parallel model of DTensors, from the autograd
graph.

A DTensor's `to_local()` is a node of the graph with its placements. A result of replicated tensors
is replicated, whatever the operation. `graph_rules` tells where a cut goes in views, element-wise
operations, attention and products. The placements of all other results are unknown, unless the user
declares them.

Where a whole tensor meets a cut one, the gradient that comes back to it is a term of a sum.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional

import torch

from ttrace_torch.errors import Unplaced
from ttrace_torch.frameworks.graph_rules import (
    REDUCTIONS_OF_GRADIENTS,
    REDUCTIONS_OF_VALUES,
    moved,
    operation,
)
from ttrace_torch.layout.dtensor import is_dtensor, placement_of
from ttrace_torch.layout.placements import (
    Partial,
    Placement,
    Placements,
    Replicate,
    Shard,
    Strided,
)
from ttrace_torch.rewrite.overwrite import NODES

# Axis -> placement; empty for a replicated tensor, None if the placements are unknown.
Verdict = Optional[Mapping[str, Placement]]

_TO_LOCAL = "_ToTorchTensorBackward"
_KEY = "ttrace.placements"
# Axes over which a gradient is a term of a sum; None if they are not known.
_SUMS = "ttrace.sums"
_UNKNOWN = ""
# id of a parameter -> the parameter, and the axes over which its raw gradient is a term of a sum.
_SUMS_OF: dict[int, tuple[Any, set[str]]] = {}


def placements_of(tensor: torch.Tensor) -> Verdict:
    """Placements of a plain tensor on the axes of the tensor-parallel device meshes.

    A tensor without a graph, such as the model's input, counts as replicated. Returns None if they
    are unknown, and if gradients are disabled, since then there is no graph.
    """
    if is_dtensor(tensor) or not tensor.is_floating_point():
        return {}
    if tensor.grad_fn is None:
        return {} if torch.is_grad_enabled() or isinstance(tensor, torch.nn.Parameter) else None
    return _verdict(tensor.grad_fn)


def _verdict(last: Any) -> Verdict:
    """The verdict on a node. It is kept in the node's metadata, as those of all nodes before it."""
    stack = [last]
    while stack:
        node = stack[-1]
        before = [one for _, (one, _) in _next(node)]
        waiting = [one for one in before if _KEY not in one.metadata]
        if _KEY in node.metadata or not waiting:
            node.metadata.setdefault(_KEY, _judged(node))
            stack.pop()
        else:
            stack.extend(waiting)
    found: Verdict = last.metadata[_KEY]
    return found


def _judged(node: Any) -> Verdict:
    if node.name() == _TO_LOCAL:
        return _placements_in(node.dtensor_spec)
    before = _next(node)
    cut = [(place, one, number) for place, (one, number) in before if one.metadata[_KEY] != {}]
    if not cut or operation(node) in REDUCTIONS_OF_VALUES:
        return {}
    known = all(one.metadata[_KEY] is not None for _, one, _ in cut)
    if node.name() in NODES:
        # A plan's tensor has the placements of the tensor that it replaces.
        found: Verdict = cut[0][1].metadata[_KEY]
    else:
        found = _after(node, cut) if known else None
    axes = frozenset(axis for _, one, _ in cut for axis in one.metadata[_KEY] or ())
    for _, (one, _) in before:
        if one.metadata[_KEY] == {}:
            _mark_sources(one, axes if found else None)
    return found


def _after(node: Any, cut: list[tuple[int, Any, int]]) -> Verdict:
    """Placements of the output of an operation with these cut inputs."""
    out = _shape(node, 0)
    found: dict[str, Placement] | None = None
    for place, one, number in cut:
        shape = _shape(one, number)
        if shape is None or out is None:
            return None
        mine: dict[str, Placement] = {}
        for axis, placement in one.metadata[_KEY].items():
            after = moved(node, place, placement, shape, out)
            if after is None:
                return None
            mine[axis] = after
        if found is not None and mine != found:
            return None
        found = mine
    return found


def _mark_sources(last: Any, axes: frozenset[str] | None) -> None:
    """Notes that gradients reach `last`, the node of a whole tensor, from each rank's part of a
    result.

    Its parameters' gradients are then terms of a sum over `axes`; None if it is not known.
    """
    stack = [last]
    while stack:
        node = stack.pop()
        variable = getattr(node, "variable", None)
        if variable is not None:
            # Its node may outlive the step, with the notes of an earlier step.
            sums = _SUMS_OF.setdefault(id(variable), (weakref.ref(variable), set()))[1]
            sums.update([_UNKNOWN] if axes is None else axes)
            continue
        known = node.metadata.get(_SUMS, frozenset())
        if known is None or (axes is not None and axes <= known and _SUMS in node.metadata):
            continue
        node.metadata[_SUMS] = None if axes is None else known | axes
        if node.name() != _TO_LOCAL and operation(node) not in REDUCTIONS_OF_GRADIENTS:
            stack.extend(one for _, (one, _) in _next(node))


def gradient_of(parameter: torch.Tensor, axes: Iterable[str]) -> Placements:
    """Placements of the raw gradient of a whole parameter, as its last forward tells.

    axes: those of tensor parallelism, for messages. Throws Unplaced where it is not known.
    """
    reference, sums = _SUMS_OF.get(id(parameter), (None, set()))
    if reference is None or reference() is not parameter:
        return {}
    if _UNKNOWN in sums:
        raise Unplaced(
            f"whether the raw gradient is a term of a sum over {', '.join(sorted(axes))} cannot be "
            "told from the graph; Layout(..., param_grads=...) says it"
        )
    return {axis: Partial("sum") for axis in sorted(sums)}


def forget() -> None:
    """Forgets what earlier forwards told about gradients."""
    _SUMS_OF.clear()


def declare(tensor: torch.Tensor, placements: Placements) -> None:
    """Takes the placements of a tensor as known: those of tensors computed from it follow."""
    if is_dtensor(tensor) or tensor.grad_fn is None:
        return
    rank = tensor.dim()
    known: dict[str, Placement] = {}
    for axis, placement in placements.items():
        if isinstance(placement, (Shard, Strided)):
            at = placement.dim % rank
            factor = placement.stride if isinstance(placement, Strided) else 1
            known[axis] = Shard(at) if factor == 1 else Strided(at, factor)
        elif not isinstance(placement, Replicate):
            known[axis] = placement
    node: Any = tensor.grad_fn
    node.metadata[_KEY] = known


def guess(tensor: torch.Tensor, axes: Sequence[str]) -> str:
    """A guess at the placements of a tensor that the graph does not tell, for a Layout."""
    shape, dim = tuple(tensor.shape), -1
    nodes, seen = [tensor.grad_fn], 0
    while nodes and seen < 1000:
        node = nodes.pop(0)
        seen += 1
        if node is None or node.name() == _TO_LOCAL:
            continue
        for _, (one, number) in _next(node):
            verdict, before = one.metadata.get(_KEY), _shape(one, number)
            for axis, placement in (verdict or {}).items():
                if isinstance(placement, Shard) and before is not None:
                    alike = [d for d, n in enumerate(shape) if n == before[placement.dim]]
                    dim = alike[-1] if alike else 1 if len(shape) == 4 else -1
                    return f'{{"{axis}": tt.Shard({dim})}}'
            nodes.append(one)
    return f'{{"{axes[0]}": tt.Shard({dim})}}' if axes else "{}"


def _placements_in(spec: Any) -> Verdict:
    """Placements of a DTensor's local tensor, without replicated axes."""
    names = spec.mesh.mesh_dim_names
    found: dict[str, Placement] = {}
    for number, placement in enumerate(spec.placements):
        own = placement_of(placement, len(spec.shape), "a local tensor")
        if own != Replicate() and spec.mesh.size(number) > 1:
            if names is None:
                return None
            found[names[number]] = own
    return found


def _next(node: Any) -> list[tuple[int, tuple[Any, int]]]:
    """(place among the inputs, node that it comes from), up to the nearest DTensors."""
    if node.name() == _TO_LOCAL:
        return []
    return [(place, edge) for place, edge in enumerate(node.next_functions) if edge[0] is not None]


def _shape(node: Any, number: int) -> tuple[int, ...] | None:
    """Shape of the `number`-th tensor that the node's operation returned."""
    metadata = getattr(node, "_input_metadata", None)
    return tuple(metadata[number].shape) if metadata else None
