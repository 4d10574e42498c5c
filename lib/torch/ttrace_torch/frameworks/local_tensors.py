"""Placements of plain local tensors in a tensor-parallel model of DTensors, from the autograd
graph.

A DTensor's `to_local()` is a node of the graph with its placements. A result of replicated tensors
is replicated, whatever the operation. A result of the same shape as a sharded tensor has its
placements if the operation is element-wise, or normalises along dimensions that are not sharded.
The placements of all other results are unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

import torch

from ttrace_torch.layout.dtensor import is_dtensor, placement_of
from ttrace_torch.layout.placements import Partial, Placement, Replicate, Shard
from ttrace_torch.rewrite.overwrite import NODES

# Axis -> placement; empty for a replicated tensor, None if the placements are unknown.
Verdict = Optional[Mapping[str, Placement]]

_TO_LOCAL = "_ToTorchTensorBackward"
_KEY = "ttrace.placements"
# Backward nodes of element-wise operations.
_POINTWISE = frozenset(
    {
        "AbsBackward0",
        "AddBackward0",
        "AliasBackward0",
        "CloneBackward0",
        "DivBackward0",
        "EluBackward0",
        "GeluBackward0",
        "HardswishBackward0",
        "LeakyReluBackward0",
        "MulBackward0",
        "NativeDropoutBackward0",
        "NegBackward0",
        "PowBackward0",
        # FSDP2's node on a module's inputs.
        "RegisterPostBackwardFunctionBackward",
        "ReluBackward0",
        "SigmoidBackward0",
        "SiluBackward0",
        "SoftplusBackward0",
        "SubBackward0",
        "TanhBackward0",
        "ToCopyBackward0",
    }
)
_NORMS = frozenset({"NativeLayerNormBackward0", "FusedRmsNormBackward0"})


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
        before = [one for one, _ in _next(node)]
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
    cut: list[tuple[Any, int]] = []
    for one, number in _next(node):
        verdict = one.metadata[_KEY]
        if verdict is None:
            return None
        if verdict:
            cut.append((one, number))
    if node.name() in NODES:
        # A plan's tensor has the placements of the one it replaces.
        return cut[0][0].metadata[_KEY] if cut else {}
    if not cut:
        return {}
    verdicts = [one.metadata[_KEY] for one, _ in cut]
    if (
        not (node.name() in _POINTWISE or _within_rows(node, verdicts[0]))
        or any(verdict != verdicts[0] for verdict in verdicts)
        or any(isinstance(placement, Partial) for placement in verdicts[0].values())
        or any(_shape(one, number) != _shape(node, 0) for one, number in cut)
    ):
        return None
    first: Verdict = verdicts[0]
    return first


def _within_rows(node: Any, cut: Mapping[str, Placement]) -> bool:
    """Whether the node is a norm over dimensions that are not sharded."""
    if node.name() not in _NORMS:
        return False
    rows = len(_shape(node, 0) or ()) - len(node._saved_normalized_shape)
    return all(isinstance(placement, Shard) and placement.dim < rows for placement in cut.values())


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


def _next(node: Any) -> list[tuple[Any, int]]:
    """The nodes that the node's tensors come from, up to the nearest DTensors."""
    if node.name() == _TO_LOCAL:
        return []
    return [(one, number) for one, number in node.next_functions if one is not None]


def _shape(node: Any, number: int) -> tuple[int, ...] | None:
    """Shape of the `number`-th tensor that the node's operation returned."""
    metadata = getattr(node, "_input_metadata", None)
    return tuple(metadata[number].shape) if metadata else None
