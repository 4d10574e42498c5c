"""Makes a model parallel as a layout says: over data by us, by tensors as the model's own plan or
the user's function says."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

from ttrace_torch.matrix.cut import Cut, axes_cut
from ttrace_torch.matrix.errors import MatrixError
from ttrace_torch.matrix.job import Job
from ttrace_torch.matrix.words import Word

_MEANING = {"cp": "context parallelism", "ep": "expert parallelism"}


@dataclass(frozen=True)
class Ranks:
    """The mesh of a layout, and this rank's place among those that share out the data."""

    mesh: Any
    data_rank: int
    data_ranks: int


def ranks_of(word: Word, device: torch.device) -> Ranks:
    """Makes the device mesh of a layout; of one process there is none."""
    axes = word.axes
    if not axes:
        return Ranks(None, 0, 1)
    mesh = init_device_mesh(device.type, tuple(axes.values()), mesh_dim_names=tuple(axes))
    return Ranks(mesh, mesh.get_local_rank("dp") if word.data else 0, word.dp)


def cut_by_tensors(model: nn.Module, word: Word, ranks: Ranks, job: Job) -> Cut:
    """Tensor, context and expert parallelism, if the layout has them. Returns what the user's
    function says of its cut. Throws MatrixError where nothing says how, and where that function
    left the model whole over an axis that it alone can cut."""
    if word.tp == 1 and not word.by_hand:
        return Cut()
    if job.parallelize is not None:
        axes = (*word.by_hand, *(["tp"] if word.tp > 1 else []))
        said = job.parallelize(model, ranks.mesh[axes], word.sequence)
        cut = said if isinstance(said, Cut) else Cut()
        if said is not None and cut is not said and word.by_hand:
            raise MatrixError(
                f"parallelize returned a {type(said).__name__} for {word.text!r}; it returns "
                "None or a ttrace_torch.testing.Cut"
            )
        for axis in word.by_hand:
            if axis not in axes_cut(model, cut):
                raise MatrixError(
                    f"parallelize: {word.text!r} has {_MEANING[axis]}, and no parameter and no "
                    f"layout that parallelize returned lies in parts over {axis}; cut the model "
                    "over mesh, and return ttrace_torch.testing.Cut(layouts=[...])"
                )
        return cut
    mesh = ranks.mesh["tp"] if word.tp > 1 else None
    if word.by_hand:
        raise MatrixError(
            f"parallelize: {word.text!r} has {_MEANING[word.by_hand[0]]}, and nothing says how to "
            f"cut a {type(model).__name__}; give parallelize=, a function of (model, mesh, "
            "sequence), or run a trainer that makes it, as a script and its arguments"
        )
    if not hasattr(model, "tp_plan"):
        raise MatrixError(
            f"parallelize: {word.text!r} has tensor parallelism, and {type(model).__name__} has no "
            "tp_plan; give parallelize=, a function of (model, mesh, sequence)"
        )
    _by_own_plan(model, word, mesh)
    return Cut()


def _by_own_plan(model: Any, word: Word, mesh: Any) -> None:
    """Cuts a model of transformers as `from_pretrained(..., tp_plan="auto")` does; along the
    sequence, too, if the layout does."""
    try:
        own: Any = importlib.import_module("transformers.distributed")
        styles: Any = importlib.import_module("transformers.distributed.tensor_parallel")
        config = own.DistributedConfig(tp_size=word.tp)
        plan = model._resolve_parallel_plans(config)[0]
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        version = getattr(sys.modules.get("transformers"), "__version__", "none")
        raise MatrixError(
            f"parallelize: {word.text!r} has tensor parallelism, and transformers {version} cannot "
            f"cut a {type(model).__name__} by a plan of its own ({error}); give parallelize="
        ) from error
    if not plan:
        raise MatrixError(
            f"parallelize: the tp_plan of {type(model).__name__} is empty, and {word.text!r} has "
            "tensor parallelism; give parallelize="
        )
    if not word.sequence:
        styles.apply_tensor_parallelism(model, mesh, plan)
        return
    # Releases of torch without tensor parallelism of this form run the other layouts.
    from ttrace_torch.matrix.sequence import cut_sequence

    why = cut_sequence(model, mesh, plan)
    if why is not None:
        raise MatrixError(
            f"parallelize: {word.text!r} has sequence parallelism, which no plan of "
            f"{type(model).__name__} has, and it cannot be added: {why}; give parallelize=, a "
            "function of (model, mesh, sequence)"
        )


def share_out_data(model: nn.Module, word: Word, ranks: Ranks) -> nn.Module:
    """The model wrapped or sharded over the data-parallel ranks, if the layout has them."""
    if word.data == "ddp":
        group = ranks.mesh.get_group("dp")
        return nn.parallel.DistributedDataParallel(model, process_group=group)
    if word.data == "fsdp":
        from torch.distributed.fsdp import fully_shard

        mesh = ranks.mesh["dp"]
        for block in blocks(model):
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    return model


def blocks(model: nn.Module) -> list[nn.Module]:
    """The members with parameters of the outermost lists of modules: the layers of the model."""
    found: list[nn.Module] = []
    for child in model.children():
        if isinstance(child, (nn.ModuleList, nn.ModuleDict, nn.Sequential)):
            found.extend(m for m in child.children() if any(True for _ in m.parameters()))
        else:
            found.extend(blocks(child))
    return found


def accumulates(model: nn.Module, last: bool) -> Any:
    """A context for forward and backward of a micro-batch, after which only the last one's
    gradients are averaged. None where every backward averages."""
    if last or not isinstance(model, nn.parallel.DistributedDataParallel):
        return None
    return model.no_sync()
