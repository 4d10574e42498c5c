"""`trace`: the one function a training job calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Callable

from ttrace_torch import names as naming
from ttrace_torch.assignment import assign
from ttrace_torch.disturb import Disturb, Disturber
from ttrace_torch.errors import TraceError
from ttrace_torch.frameworks import framework_of
from ttrace_torch.layout import Layout
from ttrace_torch.megatron_attributes import check_axis
from ttrace_torch.mesh import Mesh
from ttrace_torch.meshes import Meshes
from ttrace_torch.output import Output
from ttrace_torch.plan import plan_path, read_plan
from ttrace_torch.ranks import current_rank
from ttrace_torch.record import KINDS
from ttrace_torch.rewriting import Rewriter
from ttrace_torch.step import Selection
from ttrace_torch.tracer import Tracer


def trace(
    model: Any,
    optimizer: Any = None,
    out: str | Path = "run/",
    mesh: Mesh | None = None,
    rank: int | None = None,
    layouts: Iterable[Layout] = (),
    disturb: Disturb | None = None,
    kinds: Iterable[str] | None = None,
    modules: Iterable[str] | None = None,
    run: Mapping[str, Any] | None = None,
    compress: int | None = None,
    meshes: Mapping[str, Mesh] | None = None,
    tp_axis: str = "tp",
    framework: str = "auto",
    rename: Callable[..., str] | None = None,
    plan: str | Path | None = None,
) -> Tracer:
    """A tracer for `model`; what is recorded is what runs inside its `step()` contexts.

    model: a module; for Megatron-core also the list of its model chunks; for a pipeline of
        torch.distributed.pipelining its schedule; a DeepSpeed engine.
    optimizer: a torch optimizer, or Megatron's; a DeepSpeed engine has its own. Main gradients are
        then recorded when its step begins, updated parameters after it, and its hyperparameters
        go into the manifest.
    out: a path ending in ".h5" for a run of one rank, else a folder for the files of all ranks.
    mesh: the ranks of the run as a grid; by default that of the parameters' device meshes or of
        the wrappers' process groups, and a single rank where there are none.
    rank: by default torch.distributed's where it is initialised, else the variable RANK, else 0.
    layouts: which tensors are not replicated. See `Layout`; DTensors need none.
    disturb: makes this a noise run of the reference. See `Disturb`.
    kinds: which kinds of tensor to record, all by default.
    modules: globs over canonical names; only these modules and their own parameters are recorded.
    run: facts for the manifest: framework, model, precision, command, created (strings), extra.
    compress: deflate level 0 to 9; by default the datasets are contiguous.
    meshes: further meshes by name, for placements that say `OnMesh(name, ...)`; the parameters of
        Megatron's experts lie on the one called "expert". DTensors bring their own.
    framework: "megatron" where Megatron-core's model, groups and schedules tell names, meshes,
        layouts and micro-batches themselves (docs/megatron.md), "deepspeed" where its engine does
        (docs/deepspeed.md), "pytorch" where DDP, FSDP2, DTensors or a pipeline do, "none" where
        all is said here; "auto" looks at the classes of the model's modules. The manifest says
        which it was.
    rename: from a canonical name in this rank's model, of a module or a parameter, to that in the
        whole model; given the number of the stage as well where the model is a pipeline's.
    plan: a plan file: the inputs and output gradients of the modules it names are overwritten, see
        docs/rewriting.md. By default the one that the variable TTRACE_PLAN names, if any.
    tp_axis: the axis over which Megatron's tensor-parallel parameters are cut.

    Removes this rank's earlier file in `out`, and its manifest. Never communicates. Throws
    TraceError for whatever would make the trace wrong: a pattern without a match, an unknown axis.
    """
    adapter = framework_of(model, framework)
    mesh, meshes = adapter.meshes(mesh, meshes)
    check_axis(tp_axis, mesh)
    grids = Meshes(mesh, meshes)
    rank = current_rank() if rank is None else rank
    mesh.coordinate(rank)
    names = naming.ModelNames.of(model, naming.renamed(adapter.naming(), rename))
    layouts = list(layouts)
    known = adapter.layouts(names, [layout.pattern for layout in layouts])
    assignment = assign(layouts, names, grids, tp_axis, known)
    selection = _select(names, kinds, modules)
    optimizer = adapter.optimizer(optimizer)
    adapter.check(selection, optimizer)
    rewriter = _rewriter(plan, names, grids, rank, disturb)
    facts = {"framework": adapter.label, "model": adapter.model_class(names)}
    output = Output(out, grids, rank, {**facts, **(run or {})}, compress)
    disturber = Disturber(disturb, grids, rank) if disturb is not None else None
    return Tracer(names, assignment, selection, output, optimizer, disturber, adapter, rewriter)


def _rewriter(
    plan: str | Path | None,
    names: naming.ModelNames,
    grids: Meshes,
    rank: int,
    disturb: Disturb | None,
) -> Rewriter | None:
    path = plan_path(plan)
    if path is None:
        return None
    if disturb is not None:
        raise TraceError(
            f"plan {path} in a noise run: a disturbance does not travel where inputs are "
            "overwritten; leave out one of the two"
        )
    return Rewriter(read_plan(path), names.modules, grids, rank)


def _select(
    names: naming.ModelNames, kinds: Iterable[str] | None, patterns: Iterable[str] | None
) -> Selection:
    wanted = KINDS if kinds is None else tuple(kinds)
    for kind in wanted:
        if kind not in KINDS:
            raise TraceError(f"kinds: {kind!r} is none of {', '.join(KINDS)}")
    if patterns is None:
        return Selection(wanted, set(names.modules), set(names.parameters))
    chosen: set[str] = set()
    for pattern in patterns:
        matched = naming.matching(pattern, names.modules)
        if not matched:
            raise TraceError(
                f"modules: {pattern!r} matches no module; " + naming.nearest(pattern, names.modules)
            )
        chosen.update(matched)
    parameters = {
        name for name, owners in names.owners.items() if any(o in chosen for o, _ in owners)
    }
    return Selection(wanted, chosen, parameters)
