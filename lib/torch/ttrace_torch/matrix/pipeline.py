"""Trains a job as one rank of a pipeline, with a schedule of torch.distributed.pipelining."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Callable

import torch
from torch import distributed, nn

from ttrace_torch.api import trace
from ttrace_torch.base.names import ROOT
from ttrace_torch.matrix.errors import MatrixError
from ttrace_torch.matrix.job import Job
from ttrace_torch.matrix.parallel import Ranks, cut_by_tensors, share_out_data
from ttrace_torch.matrix.processes import Place
from ttrace_torch.matrix.stages import Feeding, feeding, members, names_of, stage_of
from ttrace_torch.matrix.words import SCHEDULES, Word


def train_pipeline(
    place: Place, job: Job, word: Word, ranks: Ranks, model: nn.Module, out: Path
) -> list[str]:
    """Trains the stages of this rank. Returns the names of the modules that no stage runs as they
    are, because their members lie in several: the whole model is one of them.

    model: the whole model, cut by tensors already.
    """
    from torch.distributed import pipelining

    group = ranks.mesh.get_group("pp")
    mine = ranks.mesh.get_local_rank("pp")
    indices = range(mine, word.stages, word.pp)
    whole = {one: name for name, one in members(model)}
    feed = feeding(job, model)
    modules, stages, renames = {}, [], {}
    ran: set[str] = set()
    for index in indices:
        # A stage may take its model apart, so that each has one of its own.
        own = model if index == indices[0] else _another(job, word, ranks, place)
        of_whole = whole if own is model else {one: name for name, one in members(own)}
        module = stage_of(job, own, word, index, place.device)
        renames[index] = names_of(of_whole, module)
        _follow(module, renames[index], ran)
        modules[index] = share_out_data(module, word, ranks)
        stages.append(
            pipelining.PipelineStage(modules[index], index, word.stages, place.device, group=group)
        )
    numbers = _numbers(job, ranks)
    optimizer = job.optimizer([p for module in modules.values() for p in module.parameters()])

    def loss_fn(output: Any, number: torch.Tensor) -> torch.Tensor:
        batch = job.batch(int(number), place.device)
        loss, data = feed.loss(output, batch)
        tracer.loss(loss, **data)
        return loss

    name, several = SCHEDULES[word.schedule]
    schedule = getattr(pipelining, name)(
        stages if several else stages[0], n_microbatches=len(numbers), loss_fn=loss_fn
    )

    def rename(name: str, stage: int = indices[0]) -> str:
        return renames[stage](name)

    tracer = trace(
        schedule, optimizer, out=out, rename=rename, run={"command": f"matrix {word.text}"}
    )
    inputs = _inputs(job, feed, numbers, place) if 0 in indices else ()
    target = torch.tensor(numbers)
    for step in range(job.steps):
        with tracer.step(step):
            schedule.step(*inputs, target=target)
            optimizer.step()
            optimizer.zero_grad()
    tracer.close()
    if tracer.failed is not None:
        raise MatrixError(f"nothing was recorded: {tracer.failed}")
    return _taken_apart(whole, ran)


def _another(job: Job, word: Word, ranks: Ranks, place: Place) -> nn.Module:
    model = job.model(place.device)
    cut_by_tensors(model, word, ranks, job)
    return model


def _numbers(job: Job, ranks: Ranks) -> list[int]:
    """The micro-batches of this rank's pipeline."""
    share = len(job.batches) // ranks.data_ranks
    return list(range(ranks.data_rank * share, (ranks.data_rank + 1) * share))


def _inputs(job: Job, feed: Feeding, numbers: list[int], place: Place) -> tuple[torch.Tensor, ...]:
    """The first stage's arguments for all micro-batches, which the schedule cuts apart again."""
    given = [feed.inputs(job.batch(number, place.device)) for number in numbers]
    if len({tuple(t.shape for t in one) for one in given}) > 1:
        raise MatrixError(
            "batches: the micro-batches of a pipeline have one shape, and these have several"
        )
    return tuple(torch.cat(tensors) for tensors in zip(*given))


def _follow(stage: nn.Module, rename: Callable[[str], str], ran: set[str]) -> None:
    """Adds the names of the stage's modules to `ran` as they run."""
    for name, module in stage.named_modules():
        if name:
            whole = rename(name)
            module.register_forward_pre_hook(lambda *_, whole=whole: ran.add(whole))


def _taken_apart(whole: Mapping[Any, str], ran: set[str]) -> list[str]:
    """The modules of the whole model that no rank ran as they are, and the model itself."""
    there: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(there, sorted(ran))
    found = {name for names in there for name in names}
    modules = (name for one, name in whole.items() if isinstance(one, nn.Module))
    return [ROOT, *sorted(name for name in modules if name not in found)]
