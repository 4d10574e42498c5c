"""Detects everyday mistakes in how a job is traced. Each yields one sentence with the way out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import nn

from ttrace_torch.base.names import ModelNames
from ttrace_torch.frameworks.framework import Watch
from ttrace_torch.job import TracedJob

# The most modules or parameters that a sentence names.
_MOST_NAMED = 3


def mistakes_at_trace(job: TracedJob, watch: Watch | None) -> Iterator[str]:
    """Sentences about arguments of trace() that are surely mistakes.

    watch: follows the optimizer; None without one.
    """
    yield from job.framework.mistakes()
    if job.data.doubt is not None:
        yield job.data.doubt
    held = None if watch is None else watch.held(job.names)
    if held is None:
        return
    trained = {name for name, p in job.names.parameters.items() if p.requires_grad}
    if trained and not held:
        yield (
            "the optimizer holds none of the model's parameters, so its step changes nothing of "
            "the model; make it after the model has been wrapped, sharded and moved, or say "
            "parameter.main_param = copy where it updates wider copies"
        )
    elif trained - held:
        yield (
            f"{_named(sorted(trained - held))} of {len(trained)} trained parameters are in no "
            "group of the optimizer, which never updates them; give it all parameters, or give "
            "trace() a list of all optimizers, or set requires_grad=False"
        )


def left_out_gradients(names: Sequence[str], axes: Sequence[str]) -> str:
    """A sentence about parameters that are cut over axes over which samples are dealt out."""
    return (
        f"the raw gradients of {_named(names)} are left out: a layout cuts parameters over "
        f"{', '.join(axes)}, along which every rank has samples of its own, so they are of no one "
        "micro-batch; say dp_axis=() if the ranks have parts of each micro-batch, or param_grads= "
        "if they are reduced for each"
    )


def mistakes_at_step(job: TracedJob) -> Iterator[str]:
    """Sentences about the model as the first traced step finds it."""
    random = active_dropout(job.names)
    if random:
        yield (
            f"dropout is active in {_named(random)}, which draws masks of its own in every run, so "
            "no other run repeats this one; set it to 0 for traced runs, the reference's too"
        )


def mistakes_at_close(job: TracedJob, finished: set[int], last: int | None) -> Iterator[str]:
    """Sentences about what a run that ends failed to record.

    finished: the recorded steps. last: the last step that began, traced or not; None without one.
    """
    if not job.selection.kinds:
        return
    if not finished:
        if last is None:
            yield "no step was recorded; put each training step into `with tracer.step(number):`"
        else:
            yield (
                f"no step was recorded, the job went up to step {last}; name steps that it reaches "
                "in steps= or TTRACE_STEPS"
            )
        return
    missed = job.steps.missed(finished)
    if missed:
        yield (
            f"step(s) {', '.join(map(str, missed))} were to be recorded and never ran to their "
            f"end, the job went up to step {last}"
        )
    if job.optimizer is None and job.framework.expects_optimizer and job.lacks_main_gradients():
        yield (
            "no optimizer was given, so no main gradients, optimizer state or updated parameters "
            "are recorded; say trace(model, optimizer)"
        )


def active_dropout(names: ModelNames) -> list[str]:
    """The names of the modules that drop values at random: in training mode, with a share above
    0."""
    found = []
    for name, module in names.modules.items():
        share: Any = getattr(module, "attention_dropout", 0.0)
        if isinstance(module, (nn.modules.dropout._DropoutNd, nn.RReLU)):
            share = getattr(module, "p", 1.0)
        if module.training and isinstance(share, (int, float)) and share > 0:
            found.append(name)
    return found


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMED])
    more = len(names) - _MOST_NAMED
    return shown if more <= 0 else f"{shown} and {more} more"
