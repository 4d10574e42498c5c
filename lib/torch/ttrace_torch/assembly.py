"""Makes a tracer from a model, an optimizer and a configuration."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ttrace_torch.base import names as naming
from ttrace_torch.base.origin import origin
from ttrace_torch.base.process import (
    current_rank,
    job_size,
    run_id,
    say,
    say_for_job,
    world_size,
)
from ttrace_torch.capture.compiled import graphed_of
from ttrace_torch.capture.operations import convolves, recurs
from ttrace_torch.capture.recorder import describe
from ttrace_torch.capture.selection import KINDS, FirstSteps, Selection, WritingRanks
from ttrace_torch.checks import left_out_gradients
from ttrace_torch.config import ModelConfig, TraceConfig
from ttrace_torch.errors import TraceError, WrongSetting
from ttrace_torch.frameworks import framework_of
from ttrace_torch.frameworks.framework import Framework
from ttrace_torch.inactive import Inactive
from ttrace_torch.job import TracedJob
from ttrace_torch.layout.assignment import Assignment, assign, place_ends, skip_gradients_cut_over
from ttrace_torch.layout.data_axes import DataRanks, data_ranks
from ttrace_torch.layout.megatron_attributes import check_axis
from ttrace_torch.layout.meshes import Meshes
from ttrace_torch.optimizer.scaler import ScalerWatch
from ttrace_torch.optimizer.wrappers import unwrapped
from ttrace_torch.perturb.perturber import Perturber
from ttrace_torch.rewrite.plan import read_plan
from ttrace_torch.rewrite.rewriter import Rewriter
from ttrace_torch.specification.reference_run import NoReference, ReferenceRun, refusal
from ttrace_torch.tracer import Tracer
from ttrace_torch.variables import unknown_in
from ttrace_torch.write.done import tell_failed
from ttrace_torch.write.earlier import Claim, set_aside
from ttrace_torch.write.no_output import NoOutput
from ttrace_torch.write.output import Output, check_path

# Words for kinds that belong together: what a replay of updates needs, what outlives a step.
_SHORT = {
    "optimizer": ("param", "main_grad", "grad_norm", "optimizer_state", "param_after_step"),
    "state": ("param", "buffer", "optimizer_state", "param_after_step", "buffer_after_step"),
}


@dataclass(frozen=True)
class Resolved:
    """A model's names and layouts, from the user's arguments and the framework's adapter."""

    adapter: Framework
    names: naming.ModelNames
    meshes: Meshes
    rank: int
    assignment: Assignment


def resolve(model: Any, given: ModelConfig) -> Resolved:
    """Throws TraceError for an argument that contradicts the model or its framework."""
    adapter = framework_of(model, given.framework)
    mesh, further = adapter.meshes(given.mesh, given.meshes)
    check_axis(given.tp_axis, mesh)
    meshes = Meshes(mesh, further)
    rank = current_rank() if given.rank is None else given.rank
    if given.rank is None:
        _check_ranks(meshes)
    mesh.coordinate(rank)
    names = naming.ModelNames.of(model, naming.renamed(adapter.naming(), given.rename))
    known = adapter.layouts(names, [layout.pattern for layout in given.layouts])
    assignment = assign(given.layouts, names, meshes, given.tp_axis, known)
    if adapter.counts_forwards:
        # No framework runs the stages of a pipeline, if there are any.
        place_ends(assignment, mesh)
    return Resolved(adapter, names, meshes, rank, assignment)


def _check_ranks(meshes: Meshes) -> None:
    """Throws TraceError if the meshes are not those of the job."""
    world, known = world_size(), meshes.ranks
    if world > 1 and known != list(range(world)):
        raise TraceError(
            f"mesh={meshes.default!r} has {len(known)} rank(s), the job has {world}; give "
            "trace(mesh=tt.Mesh({...})) the axes of the whole job"
        )


def make_tracer(model: Any, optimizer: Any, given: TraceConfig) -> Tracer:
    """Returns an active tracer. Throws TraceError as `trace` does.

    A trace that only the environment asks for ends no job: if it cannot be made, a warning says so,
    the trace of an earlier run is moved aside, and the tracer is inactive. Noise runs and rewritten
    runs throw.
    """
    config = given.with_environment()
    try:
        return _active(model, optimizer, config)
    except WrongSetting as error:
        if config.changes_the_run:
            raise
        return _untraced(config, str(error))
    except TraceError:
        raise
    except Exception as error:
        if config.changes_the_run or not config.is_asked_for_by_environment:
            raise
        return _untraced(config, describe(error))


def tell_unknown_variables() -> None:
    """Warns of environment variables that look like ttrace's and are unknown to it."""
    for sentence in unknown_in(os.environ):
        say_for_job(sentence)


def _untraced(config: TraceConfig, why: str) -> Tracer:
    """Returns a tracer that records nothing, after it was told why."""
    say_for_job(f"{why}; the job trains on, and nothing of it is recorded")
    if config.out is not None:
        topic, _ = run_id(config.out)
        claim = Claim(current_rank(), range(job_size()), topic, None)
        left = set_aside(Path(config.out), claim)
        if left is not None:
            say(left)
    tell_failed(why)
    return Inactive(why)


def _active(model: Any, optimizer: Any, config: TraceConfig) -> Tracer:
    config.check_noise()
    steps = config.chosen_steps()
    with config.refusing(config.model == ModelConfig()):
        found = resolve(model, config.model)
    names, meshes, rank = found.names, found.meshes, found.rank
    with config.reading("ranks"):
        writing = WritingRanks(config.chosen_ranks(), meshes.named.values())
    selection = _select(config, names, meshes)
    if not writing.takes(rank):
        selection = Selection((), set(), set())
    elif config.out is None:
        selection = replace(selection, kinds=())
    inside = unwrapped(optimizer)
    in_turn = inside.deals_in_turn if config.interleaved is None else config.interleaved
    scaler = ScalerWatch(inside.scaler if config.scaler is None else config.scaler)
    optimizer = found.adapter.optimizer(inside.optimizer)
    with config.refusing():
        _check_graphs(names, selection)
        found.adapter.check(selection, optimizer)
        data = _data_ranks(config, found)
    if skipped := skip_gradients_cut_over(found.assignment, data.axes):
        say_for_job(left_out_gradients(skipped, data.axes))
    rewriter = _rewriter(config, names, meshes, rank)
    facts = {"framework": found.adapter.label, "model": found.adapter.model_class(names)}
    run = {**facts, **(config.run or {})}
    if rank == 0:  # of a merged trace this rank's facts count
        run["extra"] = {**origin(), **run.get("extra", {})}
    if isinstance(steps, FirstSteps):
        steps.announces &= rank == 0
    return Tracer(
        TracedJob(
            names=names,
            assignment=found.assignment,
            selection=selection,
            output=_output(config, meshes, rank, run, selection, rewriter),
            optimizer=optimizer,
            framework=found.adapter,
            perturber=_perturber(config, names, meshes, rank),
            rewriter=rewriter,
            reference=_reference(config, names, meshes, rank, facts["model"]),
            steps=steps,
            writing=writing,
            scaler=scaler,
            interleaved=in_turn,
            data=data,
            divisor=config.divisor(),
        )
    )


def _data_ranks(config: TraceConfig, found: Resolved) -> DataRanks:
    """The data-parallel ranks: those that the user names, else the wrapper's, else the mesh's."""
    given, adapter = config.dp_axis, found.adapter
    if given is not None and adapter.numbers_microbatches:
        raise TraceError(
            f"dp_axis={given!r}: {adapter.label} numbers the micro-batches itself; leave it out"
        )
    known = adapter.data_ranks() if given is None else None
    if known is not None:
        return DataRanks(known, (known.index(found.rank), len(known)))
    where = config.model
    return data_ranks(found.meshes.default, found.rank, given, where.layouts, where.tp_axis)


def _check_graphs(names: naming.ModelNames, selection: Selection) -> None:
    if selection.kinds and (graphed := graphed_of(names)):
        raise TraceError(
            f"{graphed[0]} runs in CUDA graphs, which replay kernels without the hooks that record "
            "them; trace with TORCHDYNAMO_DISABLE=1, or without make_graphed_callables and "
            'mode="reduce-overhead"'
        )


def _output(
    config: TraceConfig,
    meshes: Meshes,
    rank: int,
    run: Mapping[str, Any],
    selection: Selection,
    rewriter: Rewriter | None,
) -> Output:
    if config.out is None:
        return NoOutput(meshes, rank)
    with config.reading("out"):
        check_path(config.out, meshes)
    return Output(
        str(config.out),
        meshes,
        rank,
        run,
        config.compression(),
        config.memory_bytes(),
        selection.facts(),
        noise=None if config.perturb is None else config.perturb.seed,
        plan=None if rewriter is None else rewriter.facts()["digest"],
        # A script that says out= itself knows where its trace is.
        tells=config.gave("out"),
    )


def _reference(
    config: TraceConfig, names: naming.ModelNames, meshes: Meshes, rank: int, model: str
) -> ReferenceRun:
    if config.specification is None:
        return NoReference()
    refused = refusal(len(meshes.ranks), config.changes_the_run)
    if refused is None:
        return ReferenceRun(config.specification, names, model)
    if rank == 0:
        say(f"no specification in {config.specification}: {refused}")
    return NoReference()


def _perturber(
    config: TraceConfig, names: naming.ModelNames, meshes: Meshes, rank: int
) -> Perturber | None:
    if config.perturb is None:
        return None
    modules = names.modules.values()
    return Perturber(
        config.perturb, meshes, rank, convolves=convolves(modules, ()), recurs=recurs(modules)
    )


def _rewriter(
    config: TraceConfig, names: naming.ModelNames, meshes: Meshes, rank: int
) -> Rewriter | None:
    if config.plan is None:
        return None
    path = Path(config.plan)
    if config.perturb is not None:
        raise TraceError(
            f"plan {path} in a noise run: a perturbation does not travel where inputs are "
            "overwritten; leave out one of the two"
        )
    return Rewriter(read_plan(path), names.modules, meshes, rank)


def _select(config: TraceConfig, names: naming.ModelNames, meshes: Meshes) -> Selection:
    kinds, patterns = config.names("kinds"), config.names("modules")
    wanted = KINDS if kinds is None else tuple(kinds)
    with config.reading("kinds"):
        for kind in wanted:
            if kind not in (*KINDS, *_SHORT):
                known = ", ".join((*KINDS, *_SHORT))
                raise TraceError(f"kinds: {kind!r} is none of {known}")
    longer = {kind for word in wanted for kind in _SHORT.get(word, (word,))}
    if longer != set(wanted):
        wanted = tuple(kind for kind in KINDS if kind in longer)
    if patterns is None:
        return Selection(wanted, set(names.modules), set(names.parameters))
    chosen: set[str] = set()
    for pattern in patterns:
        matched = naming.matching(pattern, names.modules)
        if not matched and not (config.gave("modules") and _is_stage(names, meshes)):
            with config.reading("modules"):
                near = naming.nearest(pattern, names.modules)
                raise TraceError(f"modules: {pattern!r} matches no module; {near}")
        chosen.update(matched)
    parameters = {
        name for name, owners in names.owners.items() if any(o in chosen for o, _ in owners)
    }
    return Selection(wanted, chosen, parameters, tuple(patterns))


def _is_stage(names: naming.ModelNames, meshes: Meshes) -> bool:
    """Whether other ranks may have modules that this one lacks: the stages of a pipeline."""
    parts = names.naming.parts(names.model)
    return meshes.default.axes.get("pp", 1) > 1 or any(map(names.naming.place, parts))
