"""The private names of torch that the collector touches, and the names of frameworks' objects.

    python -m ttrace_torch.private_names

prints, for each installed package, which of them its release lacks, and exits with 1 if it lacks
any. Packages give no promise on these names: check a new release before you rely on it.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

from ttrace_torch.frameworks import deepspeed_api, megatron_api, megatron_fsdp_api


class PrivateName(NamedTuple):
    """A name, and where a release has it.

    home: the module or class that has the attribute, or whose source assigns it; a function
        without arguments makes an object that has it.
    instead: the name that other releases have for it: one of both is enough.
    """

    name: str
    home: str | Callable[[], Any]
    used_for: str
    package: str = "torch"
    instead: str = ""


def _gradient_of(operation: Callable[[Any], Any]) -> Callable[[], Any]:
    def node() -> Any:
        import torch

        return operation(torch.ones(2, 2, requires_grad=True)).grad_fn

    return node


def _of_layer_norm(given: Any) -> Any:
    import torch

    return torch.nn.functional.layer_norm(given, (2,))


def _of_api(api: ModuleType, package: str) -> Iterator[PrivateName]:
    """The members of an interface's protocols, whose doc strings name the classes they are of."""
    for protocol in vars(api).values():
        if not inspect.isclass(protocol) or protocol.__module__ != api.__name__:
            continue
        home = (protocol.__doc__ or "").split("`")[1]
        named = [*protocol.__annotations__, *(n for n in vars(protocol) if n[0] != "_")]
        used_for = f"{api.__name__.rpartition('.')[2]}.{protocol.__name__}"
        yield from (PrivateName(name, home, used_for, package) for name in named)


_FSDP = "torch.distributed.fsdp._fully_shard."

PRIVATE_NAMES: tuple[PrivateName, ...] = (
    # What runs.
    PrivateName("_current_graph_task_id", "torch._C", "whether a backward runs, and which"),
    PrivateName("_will_engine_execute_node", "torch._C", "gradient penalties"),
    PrivateName("_compiled_call_impl", "torch.nn.Module", "modules compiled in place"),
    PrivateName("_version", "torch.Tensor", "values that are changed in place"),
    PrivateName("_base", "torch.Tensor", "views of one tensor"),
    PrivateName("_is_view", "torch.Tensor", "views of one tensor"),
    PrivateName("_cdata", "torch.UntypedStorage", "tensors that share memory"),
    PrivateName("_DropoutNd", "torch.nn.modules.dropout", "modules that drop values at random"),
    PrivateName("_ConvNd", "torch.nn.modules.conv", "convolutions that a GPU takes in TF32"),
    PrivateName("_get_total_norm", "torch.nn.utils.clip_grad", "gradients that are clipped"),
    PrivateName("_clip_grads_with_norm_", "torch.nn.utils.clip_grad", "gradients that are clipped"),
    PrivateName("_optimizer_step_pre_hooks", "torch.optim.Optimizer", "wrapped optimizers"),
    PrivateName("_scale", "torch.amp.GradScaler", "the factor of a loss"),
    PrivateName("_per_optimizer_states", "torch.amp.GradScaler", "whether gradients are unscaled"),
    PrivateName("_non_persistent_buffers_set", "torch.nn.Module", "consistent_init"),
    PrivateName("_parameters", "torch.nn.Module", "specify"),
    PrivateName("_buffers", "torch.nn.Module", "specify, running statistics"),
    # How it is distributed.
    PrivateName(
        "_get_default_store", "torch.distributed.distributed_c10d", "one run.id for all ranks"
    ),
    PrivateName("_comm_hooks", "torch.nn.parallel.DistributedDataParallel", "the mean of DDP"),
    PrivateName("_get_fsdp_state", _FSDP + "_fully_shard.FSDPModule", "the meshes of FSDP2"),
    PrivateName(
        "_fsdp_param_group",
        _FSDP + "_fsdp_state",
        "the meshes of FSDP2",
        instead="_fsdp_param_groups",
    ),
    PrivateName("_all_reduce_hook", _FSDP + "_fsdp_param_group", "the mean of FSDP2"),
    PrivateName("_fqns", "torch.distributed.fsdp._flat_param", "FSDP1, which is refused"),
    PrivateName("_local_tensor", "torch.distributed.tensor.DTensor", "a DTensor's shard"),
    PrivateName("_indices", "torch.Tensor", "where the rows of a sparse gradient belong"),
    PrivateName("_values", "torch.Tensor", "the rows of a sparse gradient"),
    PrivateName("_StridedShard", "torch.distributed.tensor.placement_types", "FSDP2 over TP"),
    PrivateName("_NormPartial", "torch.distributed.tensor._ops._math_ops", "norms, refused"),
    PrivateName(
        "_get_root_mesh",
        "torch.distributed.device_mesh",
        "the whole mesh",
        instead="_mesh_resources",
    ),
    PrivateName("_PipelineSchedule", "torch.distributed.pipelining.schedules", "pipelines"),
    PrivateName("_PipelineStageBase", "torch.distributed.pipelining.stage", "pipelines"),
    PrivateName("_stages", "torch.distributed.pipelining.schedules", "pipelines"),
    PrivateName("_stage", "torch.distributed.pipelining.schedules", "pipelines"),
    PrivateName(
        "_n_microbatches", "torch.distributed.pipelining.schedules", "the factor of a loss"
    ),
    PrivateName(
        "_loss_fn", "torch.distributed.pipelining.schedules", "losses of torchtitan's pipelines"
    ),
    PrivateName(
        "_prepare_forward_infra",
        "torch.distributed.pipelining.stage",
        "a stage's rehearsal, which is not recorded",
    ),
    PrivateName(
        "_prepare_backward_infra",
        "torch.distributed.pipelining.stage",
        "a stage's rehearsal, which is not recorded",
    ),
    # What the layouts of values follow from.
    PrivateName(
        "_saved_dim", _gradient_of(lambda x: x.unsqueeze(0)), "layouts of values without a rule"
    ),
    PrivateName(
        "_saved_dim0", _gradient_of(lambda x: x.transpose(0, 1)), "layouts of values without a rule"
    ),
    PrivateName(
        "_saved_dim1", _gradient_of(lambda x: x.transpose(0, 1)), "layouts of values without a rule"
    ),
    PrivateName(
        "_saved_dims", _gradient_of(lambda x: x.permute(1, 0)), "layouts of values without a rule"
    ),
    PrivateName(
        "_saved_split_size",
        _gradient_of(lambda x: x.split(1)[0]),
        "layouts of values without a rule",
    ),
    PrivateName(
        "_saved_normalized_shape", _gradient_of(_of_layer_norm), "layouts of values without a rule"
    ),
    PrivateName(
        "_input_metadata", _gradient_of(lambda x: x * 2), "layouts of values without a rule"
    ),
    # What a specification is recorded with.
    PrivateName("_DisableTorchDispatch", "torch._C", "factors of a loss"),
    PrivateName("_DisableAutocast", "torch._C", "specify"),
    PrivateName("_schema", "torch._ops.OpOverload", "specify"),
    PrivateName("_subclasses.fake_tensor.FakeTensor", "torch", "specify"),
    PrivateName("_subclasses.fake_tensor.FakeTensorMode", "torch", "specify"),
    PrivateName("_subclasses.fake_tensor.unset_fake_temporarily", "torch", "specify"),
    PrivateName("_python_dispatch.TorchDispatchMode", "torch.utils", "specify"),
    PrivateName("_decomp.decomposition_table", "torch", "specify"),
    # DeepSpeed.
    PrivateName(
        "_take_model_step", "deepspeed.runtime.engine.DeepSpeedEngine", "its step", "deepspeed"
    ),
    PrivateName(
        "_is_gradient_accumulation_boundary",
        "deepspeed.runtime.engine.DeepSpeedEngine",
        "its micro-batches",
        "deepspeed",
    ),
    PrivateName("_hp_grad", "deepspeed.runtime.bf16_optimizer", "its main gradients", "deepspeed"),
    *_of_api(deepspeed_api, "deepspeed"),
    # megatron-fsdp, whose buffers are no part of its interface.
    PrivateName(
        "param_and_grad_buffer",
        "megatron_fsdp.megatron_fsdp.MegatronFSDP",
        "ranges of its shards",
        "megatron-fsdp",
    ),
    *_of_api(megatron_fsdp_api, "megatron-fsdp"),
    *_of_api(megatron_api, "megatron-core"),
    # Transformers.
    PrivateName(
        "_resolve_parallel_plans",
        "transformers.PreTrainedModel",
        "tensor-parallel layouts of a matrix by the model's tp_plan",
        "transformers",
    ),
    # trl.
    PrivateName(
        "_generate_and_score_completions", "trl.GRPOTrainer", "numbers of micro-batches", "trl"
    ),
    PrivateName("_prepare_inputs", "trl.GRPOTrainer", "numbers of micro-batches", "trl"),
    # torchtitan, whose Trainer promises none of its names.
    *(
        PrivateName(name, "torchtitan.trainer.Trainer", used_for, "torchtitan")
        for name, used_for in (
            ("model_parts", "the model"),
            ("pp_schedule", "the model, if it is a pipeline"),
            ("optimizers", "its optimizers"),
            ("train_step", "its steps"),
            ("close", "the end of the trace"),
            ("loss_fn", "losses"),
            ("parallel_dims", "which activations are cut"),
        )
    ),
    PrivateName(
        "clip_grad_norm_",
        "torchtitan.distributed.utils",
        "gradients before they are clipped, and their norm",
        "torchtitan",
    ),
)


def is_there(private: PrivateName) -> bool:
    """Whether the installed release has the name, or its home's source speaks of it."""
    return any(_has(private.home, name) for name in (private.name, private.instead) if name)


def _has(home: str | Callable[[], Any], name: str) -> bool:
    if callable(home):
        return hasattr(home(), name)
    found = _resolved(home)
    if found is None:
        return False
    if _resolved(f"{home}.{name}") is not None:
        return True
    return re.search(rf"\b{re.escape(name)}\b", _source(found)) is not None


@functools.cache  # several names have one home, and finding its source takes a tenth of a second
def _source(home: Any) -> str:
    """The source of a module, class or function; nothing if there is none to read."""
    try:
        return inspect.getsource(home)
    except (OSError, TypeError):
        return ""


def _resolved(path: str) -> Any:
    """The module or attribute; None if it is not there."""
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:end]))
        except ImportError:
            continue
        for part in parts[end:]:
            if not hasattr(found, part):
                return None
            found = getattr(found, part)
        return found
    return None


def report(names: Iterable[PrivateName] = PRIVATE_NAMES) -> tuple[list[str], bool]:
    """One line for each package and for each name that it lacks, and whether one lacks any."""
    packages: dict[str, list[PrivateName]] = {}
    for private in names:
        packages.setdefault(private.package, []).append(private)
    lines, lacks = [], False
    for package, known in packages.items():
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            lines.append(f"{package}: not installed, {len(known)} names not checked")
            continue
        absent = [private for private in known if not is_there(private)]
        lacks = lacks or bool(absent)
        lines.append(f"{package} {version}: has {len(known) - len(absent)} of {len(known)} names")
        for private in absent:
            home = private.home if isinstance(private.home, str) else "an autograd node"
            lines.append(f"  lacks {private.name} of {home}: {private.used_for}")
    return lines, lacks


def main() -> int:
    lines, lacks = report()
    print("\n".join(lines))
    return 1 if lacks else 0


if __name__ == "__main__":
    sys.exit(main())
