"""The functions that a training job calls: `trace` and `consistent_init`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Callable

from ttrace_torch import config
from ttrace_torch.base import names as naming
from ttrace_torch.base.process import current_rank
from ttrace_torch.capture.selection import KINDS, FirstStep, Selection, WritingRanks
from ttrace_torch.errors import TraceError
from ttrace_torch.frameworks import framework_of
from ttrace_torch.inactive import Inactive
from ttrace_torch.init.fill import fill
from ttrace_torch.init.philox import check_seed
from ttrace_torch.layout.assignment import assign
from ttrace_torch.layout.layouts import Layout
from ttrace_torch.layout.megatron_attributes import check_axis
from ttrace_torch.layout.mesh import Mesh
from ttrace_torch.layout.meshes import Meshes
from ttrace_torch.perturb.perturber import Disturb, Disturber
from ttrace_torch.rewrite.plan import plan_path, read_plan
from ttrace_torch.rewrite.rewriter import Rewriter
from ttrace_torch.tracer import Tracer
from ttrace_torch.write.output import Output


def trace(
    model: Any,
    optimizer: Any = None,
    out: str | Path | None = None,
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
    steps: str | int | Iterable[int] | None = None,
    ranks: str | int | Iterable[int] | None = None,
    memory: str | int | None = None,
) -> Tracer:
    """A tracer for `model`; what is recorded is what runs inside its `step()` contexts.

    Without `out` and without the variable TTRACE_OUT it is inactive: nothing is looked at, and all
    its calls do nothing. Variables stand in for arguments that are None: TTRACE_STEPS, _RANKS,
    _KINDS, _MODULES (with commas), _NOISE (the seed of `disturb`), _NOISE_AT, _COMPRESS, _MEMORY,
    _PLAN.

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
    run: facts for the manifest: framework, model, precision, command, created (strings), extra;
        and id, the same on all ranks and new for every run, which is drawn where it is not given.
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
    steps: which steps are recorded, as numbers or as a text such as "0,5,10-12". By default every
        one, and the first one met alone where TTRACE_OUT said where to.
    ranks: which ranks record, in the same way, all by default; a block of coordinates of the mesh.
        The others leave files without tensors. Where it cuts through a tensor, recording throws.
    memory: how many bytes may wait to be written before a step waits, such as "4GiB".

    Removes this rank's earlier file in `out`, and its manifest. Never communicates. Throws
    TraceError for whatever would make the trace wrong: a pattern without a match, an unknown axis.
    What the disk refuses is printed and does not stop the job, see `Tracer.failed`.
    """
    if not config.active(out):
        return Inactive()
    given = config.Settings(out, steps, ranks, kinds, modules, disturb, compress, memory)
    told = config.settled(given)
    chosen_steps = told.chosen_steps(named=out is not None)
    adapter = framework_of(model, framework)
    mesh, meshes = adapter.meshes(mesh, meshes)
    check_axis(tp_axis, mesh)
    grids = Meshes(mesh, meshes)
    rank = current_rank() if rank is None else rank
    mesh.coordinate(rank)
    writing = WritingRanks(told.chosen_ranks(), grids.named.values())
    names = naming.ModelNames.of(model, naming.renamed(adapter.naming(), rename))
    layouts = list(layouts)
    known = adapter.layouts(names, [layout.pattern for layout in layouts])
    assignment = assign(layouts, names, grids, tp_axis, known)
    selection = _select(names, told.kinds, told.modules)
    if not writing.takes(rank):
        selection = Selection((), set(), set())
    optimizer = adapter.optimizer(optimizer)
    adapter.check(selection, optimizer)
    noise = told.disturb
    rewriter = _rewriter(plan, names, grids, rank, noise)
    facts = {"framework": adapter.label, "model": adapter.model_class(names)}
    output = Output(
        str(told.out),
        grids,
        rank,
        {**facts, **(run or {})},
        told.compress,
        told.bytes_waiting(),
        selection.facts(),
    )
    if isinstance(chosen_steps, FirstStep):
        chosen_steps.announces = rank == 0
    disturber = Disturber(noise, grids, rank) if noise is not None else None
    return Tracer(
        names,
        assignment,
        selection,
        output,
        optimizer,
        disturber,
        adapter,
        rewriter,
        chosen_steps,
        writing,
    )


def consistent_init(
    model: Any,
    *,
    mesh: Mesh | None = None,
    layouts: Iterable[Layout] = (),
    seed: int = 0,
    std: float = 0.02,
    skip: Iterable[str] = (),
    rename: Callable[[str], str] | None = None,
    rank: int | None = None,
    meshes: Mapping[str, Mesh] | None = None,
    tp_axis: str = "tp",
    framework: str = "auto",
) -> None:
    """Fills every floating-point parameter and persistent buffer in place with its slice.

    Values are normal with the standard deviation `std` around 0, those of one-dimensional `weight`,
    `gamma`, `scale` and `running_var` around 1. They depend on `seed`, the canonical name and the
    place in the whole tensor alone. Tied parameters are filled once, under their first name.

    model, mesh, layouts, rank, meshes, tp_axis, framework: as for `trace`. DTensors (FSDP2 too) and
        Megatron's attributes tell how a parameter is cut, layouts the rest; what nothing tells of
        is taken to be whole.
    skip: globs over canonical names of parameters and buffers to leave as they are, such as masks
        and rotary frequencies in persistent buffers. Buffers that are not persistent are left: the
        model made them from its configuration.
    rename: from a canonical name in this rank's model to the one in the whole model, for pipeline
        stages that count their layers from 0, or whose head is tied to an embedding elsewhere.

    Call it on the complete model before the first step, and before optimizers copy the parameters.
    Nothing is communicated. Throws TraceError where a parameter's layout cannot be told.
    """
    check_seed(seed, "consistent_init")
    adapter = framework_of(model, framework)
    mesh, meshes = adapter.meshes(mesh, meshes)
    check_axis(tp_axis, mesh)
    grids = Meshes(mesh, meshes)
    rank = current_rank() if rank is None else rank
    mesh.coordinate(rank)
    names = naming.ModelNames.of(model, adapter.naming())
    layouts = list(layouts)
    known = adapter.layouts(names, [layout.pattern for layout in layouts])
    assignment = assign(layouts, names, grids, tp_axis, known)
    parameters = {name: layout.of("param") for name, layout in assignment.parameters.items()}
    fill(names, parameters, grids, rank, seed, std, skip, rename)


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
    patterns = tuple(patterns)
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
    return Selection(wanted, chosen, parameters, patterns)
