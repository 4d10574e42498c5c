"""Megatron's process groups as meshes: pp, dp, cp, tp, and for experts pp, edp, ep, etp."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from torch import distributed

from ttrace_torch.errors import TraceError
from ttrace_torch.frameworks.megatron_api import ParallelState, ProcessGroup, TransformerConfig
from ttrace_torch.layout.megatron_attributes import EXPERT_MESH
from ttrace_torch.layout.mesh import Mesh

# The mesh with data- and context-parallel ranks on one axis, over which the distributed optimizer
# shards.
REPLICAS_MESH = "replicas"

# Megatron's orders of the axes, slowest first; the second is `use_tp_pp_dp_mapping`.
_ORDERS = (("pp", "dp", "cp", "tp"), ("dp", "pp", "cp", "tp"))
_EXPERT_ORDERS = (("pp", "edp", "ep", "etp"), ("edp", "pp", "ep", "etp"))


def parallel_state() -> ParallelState:
    """The module `megatron.core.parallel_state`. Throws TraceError if it has no groups yet."""
    state: ParallelState | None = sys.modules.get("megatron.core.parallel_state")
    if state is None or not state.model_parallel_is_initialized():
        raise TraceError(
            "a Megatron model without Megatron's process groups: call "
            'parallel_state.initialize_model_parallel() before trace(), or say framework="none"'
        )
    return state


def sizes(state: ParallelState) -> dict[str, int]:
    """Axis -> number of ranks, of the default mesh and the experts'."""
    return {
        "pp": state.get_pipeline_model_parallel_world_size(),
        "dp": state.get_data_parallel_world_size(),
        "cp": state.get_context_parallel_world_size(),
        "tp": state.get_tensor_model_parallel_world_size(),
        "edp": state.get_expert_data_parallel_world_size(),
        "ep": state.get_expert_model_parallel_world_size(),
        "etp": state.get_expert_tensor_parallel_world_size(),
    }


def meshes(state: ParallelState, config: TransformerConfig) -> dict[str, Mesh]:
    """Name -> mesh; the default mesh is called "".

    config: the model's configuration; without experts in it there is no mesh for experts.
    Throws TraceError if the groups have the ranks in an unknown order.
    """
    groups = {
        "pp": state.get_pipeline_model_parallel_group(),
        "dp": state.get_data_parallel_group(),
        "cp": state.get_context_parallel_group(),
        "tp": state.get_tensor_model_parallel_group(),
    }
    extents = sizes(state)
    found = {"": _grid(_ORDERS, extents, groups)}
    if extents["cp"] > 1:
        found[REPLICAS_MESH] = _joined(found[""])
    if getattr(config, "num_moe_experts", None):
        experts = {
            "pp": state.get_pipeline_model_parallel_group(),
            "edp": state.get_expert_data_parallel_group(),
            "ep": state.get_expert_model_parallel_group(),
            "etp": state.get_expert_tensor_parallel_group(),
        }
        found[EXPERT_MESH] = _grid(_EXPERT_ORDERS, extents, experts)
    return found


def _grid(
    orders: Sequence[Sequence[str]], extents: dict[str, int], groups: dict[str, ProcessGroup]
) -> Mesh:
    rank = distributed.get_rank()
    lines = {axis: list(distributed.get_process_group_ranks(g)) for axis, g in groups.items()}
    for order in orders:
        grid = Mesh([(axis, extents[axis]) for axis in order])
        if grid.holds(rank) and all(_line(grid, rank, axis) == lines[axis] for axis in order):
            return grid
    raise TraceError(
        f"Megatron's groups of rank {rank} are {lines}, which is neither of the orders "
        f'{list(orders)}; say framework="none" and give the mesh with its ranks'
    )


def _line(grid: Mesh, rank: int, axis: str) -> list[int]:
    """The ranks that differ from `rank` in the coordinate on `axis` alone."""
    mine = {name: place for name, place in grid.coordinate(rank).items() if name != axis}
    return [
        other
        for other, place in zip(grid.ranks, grid.coordinates())
        if all(place[name] == at for name, at in mine.items())
    ]


def _joined(grid: Mesh) -> Mesh:
    """The grid with dp and cp as one axis, cp the faster one."""
    apart = grid.reordered(["pp", "dp", "cp", "tp"])
    axes = {
        "pp": grid.axes["pp"],
        "dp_cp": grid.axes["dp"] * grid.axes["cp"],
        "tp": grid.axes["tp"],
    }
    return Mesh(axes, apart.ranks)
