"""Layouts from the attributes that Megatron sets on its parameters.

Megatron's layers set plain attributes on plain parameters; nothing of Megatron is imported. A
`partition_stride` of s cuts `partition_dim` into s · world pieces, of which rank r holds the pieces
r, r + world, r + 2 · world, ...: s chunks, each cut over the ranks on its own.
"""

from __future__ import annotations

from typing import Any

from ttrace_torch.errors import TraceError
from ttrace_torch.layout.layouts import ParameterLayout
from ttrace_torch.layout.mesh import Mesh
from ttrace_torch.layout.meshes import Meshes
from ttrace_torch.layout.placements import OnMesh, Partial, Placement, Placements, Shard, Strided

# The mesh of experts' parameters, and its axes.
EXPERT_MESH = "expert"
EXPERT_AXIS = "ep"
EXPERT_TENSOR_AXIS = "etp"

# Attribute -> Megatron's reduction of the gradients of a replicated parameter. Under sequence
# parallelism each rank's norm sees its share of the sequence.
_REDUCTIONS = {"average_gradients_across_tp_domain": "mean", "sequence_parallel": "sum"}


def layout_of(parameter: Any, name: str, meshes: Meshes, tp_axis: str = "tp") -> ParameterLayout:
    """The layout that the attributes of `parameter` describe; replicated without attributes.

    An axis that the mesh lacks gets no placement: Megatron sets the attributes for a single
    tensor-parallel rank, too. Throws TraceError if the attributes contradict each other, and for an
    expert's parameter on several expert-parallel ranks without a mesh for experts.
    """
    cut = _cut(parameter, name)
    whole = next((flag for flag in _REDUCTIONS if getattr(parameter, flag, False)), None)
    if cut is not None and whole is not None:
        raise TraceError(
            f"{name}: tensor_model_parallel says it is cut, {whole} that every {tp_axis} rank has "
            "all of it; say which by Layout(params=...)"
        )
    if getattr(parameter, "allreduce", True) is False:
        mesh, axis = _expert_mesh(name, meshes, tp_axis)
        where = meshes.named[mesh]
    else:
        mesh, axis, where = "", tp_axis, meshes.default
    replicated = _on(mesh, {})
    if axis not in where.axes:
        return ParameterLayout(replicated)
    if cut is not None:
        _check_stride(parameter, cut, name)
        return ParameterLayout(_on(mesh, {axis: cut}))
    if whole is None:
        return ParameterLayout(replicated)
    # The ranks' gradients differ until the optimizer gets their reduction.
    return ParameterLayout(replicated, _on(mesh, {axis: Partial(_REDUCTIONS[whole])}), replicated)


def check_axis(tp_axis: str, mesh: Mesh) -> None:
    """Throws TraceError if the user names a tensor-parallel axis that the mesh lacks."""
    if tp_axis != "tp" and tp_axis not in mesh.axes:
        raise TraceError(
            f"tp_axis={tp_axis!r}: the mesh has {', '.join(mesh.axes) or 'no axes'}; name the one "
            "over which Megatron's tensor-parallel parameters are cut"
        )


def _cut(parameter: Any, name: str) -> Shard | Strided | None:
    if not getattr(parameter, "tensor_model_parallel", False):
        return None
    dim = getattr(parameter, "partition_dim", -1)
    stride = getattr(parameter, "partition_stride", 1)
    if not 0 <= dim < parameter.dim() or stride < 1:
        raise TraceError(
            f"{name}: tensor_model_parallel is set, but partition_dim is {dim} and "
            f"partition_stride {stride}, with {parameter.dim()} dimension(s); say how it is cut by "
            "Layout(params=...)"
        )
    return Shard(dim) if stride == 1 else Strided(dim, stride)


def _check_stride(parameter: Any, cut: Shard | Strided, name: str) -> None:
    if isinstance(cut, Strided) and parameter.shape[cut.dim] % cut.stride:
        raise TraceError(
            f"{name}: partition_stride {cut.stride} does not divide the "
            f"{parameter.shape[cut.dim]} elements that this rank holds of dimension {cut.dim}; say "
            "how it is cut by Layout(params=...)"
        )


def _expert_mesh(name: str, meshes: Meshes, tp_axis: str) -> tuple[str, str]:
    """Name of the mesh of an expert's parameter, and its tensor-parallel axis."""
    if EXPERT_MESH in meshes.named:
        axes = meshes.named[EXPERT_MESH].axes
        return EXPERT_MESH, EXPERT_TENSOR_AXIS if EXPERT_TENSOR_AXIS in axes else tp_axis
    size = meshes.default.axes.get(EXPERT_AXIS, 1)
    if size > 1:
        raise TraceError(
            f"{name}: allreduce is False, so it is an expert's parameter, and the mesh has "
            f"{EXPERT_AXIS} of size {size}; name the experts' mesh, trace(meshes={{"
            f'"{EXPERT_MESH}": Mesh({{"edp": ..., "ep": ..., "etp": ...}})}}), or give '
            "Layout(params=...)"
        )
    return "", tp_axis


def _on(mesh: str, placements: dict[str, Placement]) -> Placements:
    return OnMesh(mesh, placements) if mesh else placements
