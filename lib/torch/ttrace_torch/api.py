"""The functions that a training job calls: `trace`, `consistent_init` and `specify`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Callable

from ttrace_torch.assembly import make_tracer, resolve, tell_unknown_variables
from ttrace_torch.base.names import ModelNames
from ttrace_torch.config import ModelConfig, TraceConfig, is_active
from ttrace_torch.errors import TraceError
from ttrace_torch.inactive import Inactive
from ttrace_torch.init.fill import fill
from ttrace_torch.init.philox import check_seed
from ttrace_torch.layout.assignment import Assignment
from ttrace_torch.layout.layouts import Layout
from ttrace_torch.layout.mesh import Mesh
from ttrace_torch.perturb.perturber import Perturb
from ttrace_torch.specification.fake_run import StepRules, specified
from ttrace_torch.tracer import Tracer


def trace(
    model: Any,
    optimizer: Any = None,
    out: str | Path | None = None,
    mesh: Mesh | None = None,
    rank: int | None = None,
    layouts: Iterable[Layout] = (),
    perturb: Perturb | None = None,
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
    specification: str | Path | None = None,
    interleaved: bool | None = None,
    scaler: Any = None,
    dp_axis: str | Sequence[str] | None = None,
    averaged_over: float | None = None,
) -> Tracer:
    """Returns a tracer for `model` that records what runs inside its `step()` contexts.

    Without `out` and without the environment variable TTRACE_OUT the tracer is inactive: all its
    calls do nothing, so the lines can stay in production code. Environment variables replace
    arguments that are None: TTRACE_STEPS, _RANKS, _KINDS, _MODULES (comma-separated), _NOISE (the
    seed of `perturb`), _NOISE_AT, _COMPRESS, _MEMORY, _PLAN, _SPECIFICATION.

    model: a module; for Megatron-core also the list of its model chunks; for a pipeline of
        torch.distributed.pipelining its schedule; for DeepSpeed its engine.
    optimizer: a torch optimizer, a list of several, accelerate's or Megatron's; a DeepSpeed engine
        has its own. With an optimizer,
        main gradients are recorded when its step begins, updated parameters after it, and its
        hyperparameters go into the manifest.
    out: a path ending in ".h5" for a run of one rank, else a folder for the files of all ranks.
    mesh: the ranks of the run as a grid; by default that of the parameters' device meshes or of
        the wrappers' process groups, and a single rank where there are none.
    rank: by default torch.distributed's if it is initialised, else the variable RANK, else 0.
    layouts: the tensors that are not replicated. See `Layout`; DTensors need none.
    perturb: makes this run a noise run of the reference. See `Perturb`.
    kinds: the kinds of tensor to record, all by default; one by one, or as a text such as
        "main_grad,loss,grad_norm".
    modules: globs over canonical names; only these modules and their own parameters are recorded.
    run: facts for the manifest: framework, model, precision, command, created (strings), extra;
        and id, equal on all ranks and new for every run, which is drawn if it is not given.
        In extra, commit (of the script's repository) and host are filled in.
    compress: deflate level 0 to 9; by default the datasets are contiguous.
    meshes: further meshes by name, for placements given as `OnMesh(name, ...)`; the parameters of
        Megatron's experts lie on the one called "expert". DTensors bring their own.
    framework: "megatron" reads names, meshes, layouts and micro-batches from Megatron-core's model,
        groups and schedules (docs/megatron.md), "deepspeed" from its engine (docs/deepspeed.md),
        "pytorch" from DDP, FSDP2, DTensors or a pipeline; with "none" the arguments give all of
        them. "auto" chooses by the classes of the model's modules; frameworks that the job has
        registered come first, see `register_framework`. The manifest says which it was.
    rename: maps a canonical name in this rank's model, of a module or a parameter, to the name in
        the whole model. Receives the number of the stage as well if the model is a pipeline's.
    plan: a plan file: the inputs and output gradients of the modules it names are overwritten, see
        docs/rewriting.md. By default the file that the variable TTRACE_PLAN names, if any.
    tp_axis: the axis over which Megatron's tensor-parallel parameters are sharded.
    steps: the steps to record, as ints or as a text such as "0,5,10-12". By default all of them,
        or only the first one if TTRACE_OUT gives the path.
    ranks: the ranks that record, in the same form, all by default. They must form a block of the
        mesh. The others write files without tensors. Recording throws if the block contains only
        some shards of a tensor.
    memory: the number of bytes that may wait to be written before a step waits, such as "4GiB".

    specification: a file for the specification of the first traced step of a one-process run, see
        docs/specification.md. Without `out` nothing else is written.
    interleaved: whether the data-parallel ranks take micro-batches in turn (rank d of D has number
        n · D + d as its n-th) and not in blocks. By default in turn with an optimizer that
        accelerate has prepared, since it deals them out so, else in blocks.
    dp_axis: the mesh axis, or several, the slowest first, over which samples are dealt out: their
        ranks number their micro-batches one after the other. By default those of DDP, FSDP2 or the
        framework; without these the axes called dp, dp_replicate, dp_shard, and ep inside them. An
        axis over which a layout cuts activations is not counted, and (): all ranks get the same.
    averaged_over: what the job itself divides gradients by after their backward, as the number of
        ranks whose gradients it averages: raw gradients are compared divided by it.
    scaler: the GradScaler that scales the loss, so that gradients carry their scale; by default
        that of accelerate.

    A trace of an earlier run in `out` is moved out of the way; one of the same kind (a reference, a
    noise run of this seed, a candidate on this mesh) is deleted once a step is finished. Never
    waits for other ranks. Throws TraceError for wrong arguments, such as a pattern without a match,
    and for a job that cannot be traced. What only the environment asks for never throws: it is
    printed, and the tracer is inactive; except in noise runs and rewritten runs. Everything later
    is printed and does not stop the job, see `Tracer.failed`. Axes that the mesh of this run lacks
    are ignored in `layouts`.
    """
    tell_unknown_variables()
    if not is_active(out, specification):
        return Inactive()
    where = ModelConfig(mesh, rank, tuple(layouts), meshes, tp_axis, framework, rename)
    given = TraceConfig(
        out,
        where,
        perturb,
        kinds,
        modules,
        run,
        compress,
        plan,
        steps,
        ranks,
        memory,
        specification,
        interleaved,
        scaler,
        dp_axis,
        averaged_over,
    )
    return make_tracer(model, optimizer, given)


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
    """Fills every floating-point parameter and persistent buffer in place with its local shard.

    Values are normal with the standard deviation `std` around 0, those of one-dimensional `weight`,
    `gamma`, `scale` and `running_var` around 1. They depend only on `seed`, the canonical name and
    the position in the whole tensor. Tied parameters are filled once, under their first name.

    model, mesh, layouts, rank, meshes, tp_axis, framework: as for `trace`. DTensors (FSDP2 too) and
        Megatron's attributes give the placements of a parameter, layouts those of the others; a
        parameter without either is replicated.
    skip: globs over canonical names of parameters and buffers to leave unchanged, such as masks and
        rotary frequencies in persistent buffers. Buffers that are not persistent stay unchanged:
        the model made them from its configuration.
    rename: maps a canonical name in this rank's model to the name in the whole model, for pipeline
        stages that count their layers from 0, or whose head is tied to an embedding elsewhere.

    Call it on the complete model before the first step, and before optimizers copy the parameters.
    Never communicates. Throws TraceError if the layout of a parameter is unknown.
    """
    check_seed(seed, "consistent_init")
    where = ModelConfig(mesh, rank, tuple(layouts), meshes, tp_axis, framework)
    found = resolve(model, where)
    parameters = {n: layout.of("param") for n, layout in found.assignment.parameters.items()}
    fill(found.names, parameters, found.meshes, found.rank, seed, std, skip, rename)


def specify(
    model: Any,
    *args: Any,
    loss: Callable[..., Any] | None = None,
    file: str | Path | None = None,
    loss_scale: float = 1.0,
    combine: str = "sum",
    factor: float = 1.0,
    precision: str | None = None,
    kept_precision: str | None = None,
    data: Mapping[str, Any] | None = None,
    framework: str = "auto",
    rename: Callable[..., str] | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """Returns the specification of one step of a one-process model, and writes it to `file`.

    Runs forward and backward on fake tensors, which have shapes and dtypes but no elements: it
    needs no accelerator and no memory for the weights, and changes neither the model nor its
    gradients. See docs/specification.md.

    model: a module, also one on the device "meta", or a function without arguments that makes one.
    args, kwargs: a micro-batch, as the model takes it. Only shapes and dtypes matter.
    loss: maps the model's output to the loss; by default the output's member `loss`, or the output
        itself if it is one number.
    loss_scale: what the training loop multiplies the loss of a micro-batch by before its backward.
    combine, factor: a main gradient is `factor` times the "sum" or "mean" over micro-batches of the
        raw gradients, as the training loop makes it.
    precision: the name of a dtype to which floating-point parameters are converted first.
    kept_precision: the name of the dtype in which the run keeps floating-point parameters, if it
        computes with their casts to that of the model or `precision`, as FSDP2 does with
        `MixedPrecisionPolicy(param_dtype=...)`.
    data: name -> tensor that `loss` takes from elsewhere, such as labels: by a parameter of this
        name, or as it finds it. A trace records it with `tracer.loss(loss, name=tensor)`.
    framework, rename: as for `trace`.

    Throws TraceError if the model returns no loss.
    """
    if combine not in ("sum", "mean"):
        raise TraceError(f'combine={combine!r} is neither "sum" nor "mean"')

    def names_of(made: Any) -> tuple[ModelNames, Assignment]:
        found = resolve(made, ModelConfig(framework=framework, rename=rename))
        return found.names, found.assignment

    return specified(
        model,
        (args, kwargs),
        StepRules(
            loss,
            loss_scale,
            {"combine": combine, "factor": factor},
            precision,
            kept_precision,
            data,
        ),
        names_of,
        file,
    )
