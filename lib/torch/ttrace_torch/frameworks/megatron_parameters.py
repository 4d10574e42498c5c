"""Layouts of Megatron's parameters and gradients, beyond those of their attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import nn

from ttrace_torch.base.names import ModelNames
from ttrace_torch.frameworks.megatron_api import ParallelState
from ttrace_torch.frameworks.megatron_mesh import REPLICAS_MESH, meshes
from ttrace_torch.frameworks.megatron_names import TIED, inner
from ttrace_torch.frameworks.megatron_optimizer import ranges_of
from ttrace_torch.layout.layouts import ParameterLayout
from ttrace_torch.layout.megatron_attributes import EXPERT_MESH, layout_of
from ttrace_torch.layout.meshes import Meshes
from ttrace_torch.layout.placements import Flat, OnMesh, Partial, Placement, Placements, Strided


def parameter_layouts(
    names: ModelNames, parts: Sequence[nn.Module], sizes: Mapping[str, int], state: ParallelState
) -> dict[str, ParameterLayout]:
    """Canonical name -> layout, for every parameter.

    Throws TraceError if a parameter's attributes contradict each other.
    """
    config = inner(parts[0]).config
    known = meshes(state, config)
    grids = Meshes(known[""], {name: grid for name, grid in known.items() if name})
    ranges = ranges_of(parts)
    found = {}
    for name, parameter in names.parameters.items():
        own = layout_of(parameter, name, grids)
        whole, raw = dict(own.of("param")), dict(own.of("param_grad"))
        expert = not getattr(parameter, "allreduce", True)
        if config.gated_linear_unit and ".linear_fc1." in f".{name}":
            whole, raw = _gated(whole), _gated(raw)
        of_heads = not getattr(config, "multi_latent_attention", False)
        norm = name.rpartition(".")[0].endswith(("q_layernorm", "k_layernorm"))
        if sizes["tp"] > 1 and norm and of_heads:
            # All heads share it, and each rank has heads of its own.
            raw["tp"] = Partial("sum")
        if name == TIED and sizes["pp"] > 1 and _tied(parts):
            raw["pp"] = Partial("sum")
        if sizes["cp"] > 1 and not expert:
            # Each rank has its own part of the sequence.
            raw["cp"] = Partial("sum")
        if expert:
            # The routing decides which micro-batches' tokens an expert gets, from any data-parallel
            # rank. Only the sum over all of them is the same in every layout.
            raw["edp"] = Partial("sum")
        main = dict(whole)
        axis, mesh = _replicas(expert, sizes)
        if id(parameter) in ranges and sizes_of(axis, sizes) > 1:
            main[axis] = Flat(ranges[id(parameter)], tuple(parameter.shape))
        home = EXPERT_MESH if expert and EXPERT_MESH in known else ""
        found[name] = ParameterLayout(
            _at(home, whole), _at(home, raw), _at(mesh if axis in main else home, main)
        )
    return found


def sizes_of(axis: str, sizes: Mapping[str, int]) -> int:
    """Number of ranks on an axis; "dp_cp" is the data- and context-parallel ones together."""
    return sizes["dp"] * sizes["cp"] if axis == "dp_cp" else sizes[axis]


def _replicas(expert: bool, sizes: Mapping[str, int]) -> tuple[str, str]:
    """The axis over which a distributed optimizer shards a parameter, and its mesh."""
    if expert:
        return "edp", EXPERT_MESH
    return ("dp_cp", REPLICAS_MESH) if sizes["cp"] > 1 else ("dp", "")


def _gated(placements: dict[str, Placement]) -> dict[str, Placement]:
    """Each rank holds its shard of the gate, then of the gated half, whatever the stride says."""
    return {
        axis: Strided(0, 2) if getattr(placement, "dim", None) == 0 else placement
        for axis, placement in placements.items()
    }


def _tied(parts: Sequence[nn.Module]) -> bool:
    """Whether the first and the last stage both have the embedding's weight."""
    model = inner(parts[0])
    ahead = getattr(model.config, "mtp_num_layers", None)
    return bool(ahead or getattr(model, "share_embeddings_and_output_weights", False))


def _at(mesh: str, placements: Mapping[str, Placement]) -> Placements:
    return OnMesh(mesh, placements) if mesh else placements
