"""Uses of DeepSpeed that are refused, because the trace could be wrong."""

from __future__ import annotations

from collections.abc import Sequence

from torch import distributed

from ttrace_torch.capture.selection import Selection
from ttrace_torch.errors import TraceError
from ttrace_torch.frameworks.deepspeed_api import Engine

# Optimizers that reduce gradients themselves, compressed, inside their step.
_REDUCE_THEMSELVES = frozenset({"OnebitAdam", "OnebitLamb", "ZeroOneAdam"})


def check_engine(engine: Engine, ranks: Sequence[int]) -> None:
    """Throws TraceError for an engine whose ranks are not only data-parallel.

    ranks: the ranks of the engine's data-parallel group.
    """
    if any(cls.__name__ == "PipelineEngine" for cls in type(engine).__mro__):
        raise TraceError(
            "a PipelineEngine runs micro-batches in schedules of its own, which are not followed; "
            "trace an engine without pipeline stages"
        )
    if getattr(engine, "has_moe_layers", False):
        raise TraceError(
            "DeepSpeed's experts are partitioned over groups of their own, which are not "
            'described; say framework="none" and describe everything by layouts'
        )
    if len(ranks) != distributed.get_world_size() or getattr(engine, "mp_world_size", 1) > 1:
        raise TraceError(
            f"the engine's data-parallel group has {len(ranks)} of "
            f"{distributed.get_world_size()} ranks, so others are parallel in a way that is not "
            'described; say framework="none" and describe everything by layouts'
        )
    if getattr(engine, "sequence_parallel_size", 1) > 1:
        raise TraceError(
            "sequence parallelism cuts activations where the engine does not tell; say "
            'framework="none" and describe everything by layouts'
        )
    if getattr(engine, "zenflow", False) or _asked(engine, "is_deepcompile_enabled"):
        raise TraceError(
            "ZenFlow and DeepCompile move gradients where no hook sees them; switch them off for "
            "traced runs"
        )
    optimizer = getattr(engine, "optimizer", None)
    if getattr(engine, "torch_autocast_z0_gradscaler", None) or getattr(
        optimizer, "torch_autocast_gradscaler", None
    ):
        raise TraceError(
            "torch_autocast in fp16 scales the loss by a GradScaler, whose scale is not followed; "
            "trace with bf16, or with DeepSpeed's own fp16"
        )


def check_kinds(engine: Engine, selection: Selection) -> None:
    """Throws TraceError for kinds of tensors that are not in this rank's memory."""
    main = "main_grad" in selection.kinds
    settings = getattr(engine, "zero_offload_optimizer", lambda: None)()
    if main and str(getattr(settings, "device", "none")).rpartition(".")[2] != "none":
        raise TraceError(
            "offload_optimizer moves main gradients away during the backward; switch it off for "
            'traced runs, or give kinds=[...] without "main_grad"'
        )
    inner = type(getattr(engine, "basic_optimizer", None)).__name__
    if main and inner in _REDUCE_THEMSELVES:
        raise TraceError(
            f"{inner} reduces gradients inside its step, after they are recorded; give kinds=[...] "
            'without "main_grad"'
        )
    settings = getattr(engine, "zero_offload_param", lambda: None)()
    swapped = str(getattr(settings, "device", "none")).rpartition(".")[2] == "nvme"
    if swapped and {"param", "param_after_step"} & set(selection.kinds):
        raise TraceError(
            "offload_param to nvme takes parameters out of memory; switch it off for traced runs, "
            'or give kinds=[...] without "param" and "param_after_step"'
        )


def _asked(engine: Engine, method: str) -> bool:
    return bool(getattr(engine, method, lambda: False)())
