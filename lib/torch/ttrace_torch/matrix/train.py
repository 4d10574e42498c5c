"""Trains a job for its steps as one rank of a layout, and records them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from torch import nn

from ttrace_torch.api import trace
from ttrace_torch.layout.mesh import Mesh
from ttrace_torch.matrix.cut import WHOLE, Cut, ranks_averaged
from ttrace_torch.matrix.errors import MatrixError
from ttrace_torch.matrix.fingerprint import hashes_of
from ttrace_torch.matrix.job import Job
from ttrace_torch.matrix.parallel import accumulates, cut_by_tensors, ranks_of, share_out_data
from ttrace_torch.matrix.pipeline import train_pipeline
from ttrace_torch.matrix.processes import Place
from ttrace_torch.matrix.words import Word
from ttrace_torch.tracer import Tracer


def train_layout(
    place: Place, job: Job, word: Word, out: Path, parameters: Mapping[str, str]
) -> list[str]:
    """Trains a candidate on this rank. Returns the names of modules that the layout takes apart.

    parameters: the hashes of the reference's parameters, by name. Throws MatrixError if the model
        that is built here has others, since no layout can agree then.
    """
    model = job.model(place.device)
    check_parameters(model, parameters, f"rank {place.rank} of {word.text}")
    ranks = ranks_of(word, place.device)
    cut = cut_by_tensors(model, word, ranks, job)
    if word.schedule:
        if cut != WHOLE:
            raise MatrixError(
                f"parallelize: it returned a Cut for {word.text!r}, and the stages of a pipeline"
                " take none; return nothing, or train this layout with a script"
            )
        return train_pipeline(place, job, word, ranks, model, out)
    model = share_out_data(model, word, ranks)
    optimizer = job.optimizer(model.parameters())
    # Without data parallelism all ranks get the same, whatever parallelize= calls its axes.
    axis: tuple[str, ...] | None = None if word.data else ()
    facts = {"command": f"matrix {word.text}"}
    layouts: dict[str, Any] = {}
    if word.by_hand or cut.layouts:
        layouts = {"mesh": Mesh(word.axes), "layouts": cut.layouts}
        axis = ("dp",) if word.data else ()
    tracer = trace(model, optimizer, out=out, run=facts, dp_axis=axis, **layouts)
    share = len(job.batches) // ranks.data_ranks
    parts = ranks_averaged(cut, word.axes)
    train(job, model, optimizer, tracer, place, ranks.data_rank * share, share, cut, parts)
    return []


def train(
    job: Job,
    model: nn.Module,
    optimizer: Any,
    tracer: Tracer,
    place: Place,
    first: int,
    share: int,
    cut: Cut = WHOLE,
    parts: int = 1,
) -> None:
    """Every step trains the micro-batches from number `first` on, `share` of them. The loss of a
    micro-batch is the mean of the losses of `parts` ranks."""
    for step in range(job.steps):
        with tracer.step(step):
            for number in range(share):
                with tracer.microbatch(number, of=share):
                    with accumulates(model, number == share - 1) or nullcontext():
                        batch = job.batch(first + number, place.device)
                        if cut.batch is not None:
                            batch = cut.batch(batch)
                        loss, data = job.forward(model, batch)
                        for name, value in data.items():
                            tracer.scalar(name, value, cut.target)
                        tracer.loss(loss, cut.loss)
                        (loss / (share * parts)).backward()  # type: ignore[no-untyped-call]
            if cut.after_backward is not None:
                cut.after_backward(model)
            optimizer.step()
            optimizer.zero_grad()
    tracer.close()
    if tracer.failed is not None:
        raise MatrixError(f"nothing was recorded: {tracer.failed}")


def check_parameters(model: nn.Module, wanted: Mapping[str, str], where: str) -> None:
    """Throws MatrixError if the model's parameters are not those of the reference."""
    made = hashes_of(model)
    differing = [name for name in {**wanted, **made} if wanted.get(name) != made.get(name)]
    if differing:
        more = f" and {len(differing) - 1} more" if len(differing) > 1 else ""
        raise MatrixError(
            f"build: two calls made different parameters, {differing[0]}{more}, in the reference "
            f"and in {where}; let it draw from torch's, numpy's or random's generator alone, which "
            "are seeded before each call, and not depend on the rank or the time"
        )
