"""Equivalence of layouts as one line of a test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Callable

from ttrace_torch.matrix.cut import Cut
from ttrace_torch.matrix.errors import MatrixError
from ttrace_torch.matrix.run import Settings, judge_traces, make_job, run_matrix
from ttrace_torch.matrix.script import Script, run_scripts
from ttrace_torch.matrix.table import Matrix

__all__ = ["Cut", "Matrix", "MatrixError", "assert_equivalent"]


def assert_equivalent(
    build: Callable[[], Any] | str | Path,
    batches: Iterable[Any] | Callable[..., Iterable[Any]] | str | Path,
    layouts: Iterable[str] | Mapping[str, int] = (),
    *,
    loss: Callable[[Any, Any], Any] | None = None,
    optimizer: Callable[[Iterable[Any]], Any] | None = None,
    parallelize: Callable[..., Any] | None = None,
    pipeline: Callable[..., Any] | None = None,
    steps: int | None = None,
    seed: int | None = None,
    threads: int | None = None,
    noise: int | Sequence[str | Path] = 3,
    limit: float = 600.0,
    cache: bool | str | Path = True,
    out: str | Path | None = None,
    most_ranks: int | None = None,
    backend: str | None = None,
) -> Matrix:
    """Trains a model in every layout, and asserts that each computes what one process does.

    Each layout is compared with a reference under tolerances that noise runs of the reference gave,
    and audited by itself. Returns the table; raises AssertionError with it unless all layouts match
    and hold, and MatrixError for arguments that cannot be used. See docs/matrix.md.

    `assert_equivalent("train.py", arguments, {"dp2": 2})` runs a script of your own, which calls
    `ttrace_torch.trace()`, as torchrun would: `arguments` is a function from a layout, "" for the
    reference, to the script's arguments, and the layouts say of how many ranks they are.

    `assert_equivalent("ref.h5", "run/", noise=["noise1.h5", ...])` compares two traces that are
    there already.

    build: makes the model. It is called anew for every run and on every rank, after torch's,
        numpy's and random's generators were seeded, and must give the same parameters each time.
    batches: the micro-batches of a step, or a function that returns them. A mapping is passed to
        the model as keyword arguments, a tuple as arguments, anything else as its only argument.
    layouts: words such as "ddp2", "fsdp4", "fsdp2+tp2", "tp2+sp", "pp2:1f1b", "cp2", "ep2".
        Of a script any words whose numbers say how many ranks there are, or their ranks by name.
    loss: maps output and target to the loss; a micro-batch is then a pair (inputs, target). By
        default the model returns the loss, or an output with a member `loss`.
    optimizer: makes an optimizer of parameters; AdamW by default.
    parallelize: called with (model, mesh, sequence) for tensor parallelism: cuts the model in place
        over the mesh, and along the sequence if `sequence`. By default the model's own `tp_plan`.
        For context and expert parallelism the mesh has the axes "cp" and "ep" too, whose ranks get
        the same micro-batches; it returns a `Cut`, which says how the parts lie.
    pipeline: called with (model, stage, stages): returns the module of one stage, made of the
        model's own modules.
    steps: how many steps to train, all with the same micro-batches.
    threads: of each process.
    noise: number of noise runs of the reference; of two traces, their paths.
    limit: seconds after which the ranks of a run are ended.
    cache: the folder that keeps references; True for one below the user's ~/.cache, False for none.
    out: a folder for traces and reports of all layouts; by default those of layouts that match are
        removed, and those of others kept in a temporary folder.
    most_ranks: the largest number of processes; by default 8, or twice the cores.
    backend: "gloo" or "nccl"; by default nccl where every rank gets a device of its own.
    """
    if isinstance(build, (str, Path)) and not callable(batches):
        found = _of_traces(build, batches, layouts, noise, out)
    else:
        if not isinstance(noise, int):
            raise MatrixError("noise: a matrix makes its noise runs itself; say how many")
        settings = Settings(noise, limit, cache, out, most_ranks, backend)
        given: Any = batches
        if isinstance(build, (str, Path)):
            found = run_scripts(Script(Path(build), given, threads or 1), layouts, settings)
        else:
            job = make_job(
                build,
                given,
                loss=loss,
                optimizer=optimizer,
                parallelize=parallelize,
                pipeline=pipeline,
                steps=steps,
                seed=seed,
                threads=threads,
            )
            found = run_matrix(job, list(layouts), settings)
    if found.exit_code:
        raise AssertionError(f"\n{found}")
    return found


def _of_traces(reference: Any, run: Any, layouts: Any, noise: Any, out: Any) -> Matrix:
    if not isinstance(run, (str, Path)) or layouts:
        raise MatrixError("build is the path of a trace; give one of a run as batches, no layouts")
    paths = [] if isinstance(noise, int) else [Path(path) for path in noise]
    return judge_traces(Path(reference), Path(run), paths, out)
