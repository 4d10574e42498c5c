"""The engine's optimizer step: gradients before clipping, their norm, and the settings."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from ttrace_torch.base.names import ModelNames
from ttrace_torch.errors import TraceError
from ttrace_torch.frameworks.deepspeed_api import Engine
from ttrace_torch.frameworks.deepspeed_partitions import Partitions
from ttrace_torch.frameworks.framework import Listener
from ttrace_torch.optimizer.state import MAIN_PARAM, StateTensor, state_tensors
from ttrace_torch.optimizer.watch import group_entries

_STEP = "_take_model_step"

# Names of a wrapper's groups of updated tensors, and of the model's parameters that these are made
# of: ZeRO-1 and 2, bf16 with fp32 gradients, fp16 without and with fusing.
_GROUPS = (
    ("single_partition_of_fp32_groups", "bit16_groups"),
    ("fp32_groups_flat_partition", "bf16_groups"),
    ("fp32_groups", "fp16_groups"),
    ("fp32_groups_flat", "fp16_groups"),
)


class EngineWatch:
    """Follows a DeepSpeed engine by wrapping the part of `step` that ends an accumulation.

    There all gradients are reduced, and neither clipped nor freed. A `step` that only ends a
    micro-batch does not call it.
    """

    def __init__(self, engine: Engine, tracer: Listener, partitions: Partitions) -> None:
        if not hasattr(type(engine), _STEP):
            raise TraceError(
                f"{type(engine).__name__} has no {_STEP}, so when gradients are final is not known "
                "in this release of DeepSpeed; tested is 0.19.8"
            )
        self._engine = engine
        self._partitions = partitions
        self._count = 0
        self._before = vars(engine).get(_STEP)
        take_step = getattr(engine, _STEP)

        def traced_step(*args: Any, **kwargs: Any) -> Any:
            tracer.before_update()
            with _clipped_norms() as norms:
                done = take_step(*args, **kwargs)
            norm = engine.get_global_grad_norm()
            norm = norms[-1] if norm is None and norms else norm
            if norm is not None:
                limit = float(engine.gradient_clipping())
                tracer.grad_norm(norm, clip_norm=limit if limit > 0 else None)
            if engine.was_step_applied():
                self._count += 1
                tracer.after_update()
            return done

        setattr(engine, _STEP, traced_step)

    def remove(self) -> None:
        """Restores the engine's own step."""
        if self._before is None:
            vars(self._engine).pop(_STEP, None)
        else:
            setattr(self._engine, _STEP, self._before)

    def entries(self, step: int, names: ModelNames) -> list[dict[str, Any]]:
        """The manifest's entries for the coming optimizer step."""
        by_id = {id(parameter): name for name, parameter in names.parameters.items()}
        inner = self._engine.basic_optimizer
        found = []
        for group, pairs in zip(inner.param_groups, _groups(self._engine, inner)):
            members = [(one, [by_id[id(p)] for p in of if id(p) in by_id]) for one, of in pairs]
            found.extend(group_entries(inner, group, members, step, self._count))
        return found

    def held(self, names: ModelNames) -> set[str] | None:
        """None: the engine makes its optimizer from the parameters that it was given."""
        return None

    def states(self, names: ModelNames) -> Iterator[StateTensor]:
        """This rank's state at the beginning of the coming step; a shard may be empty.

        Its placements are those of the main gradients, or those of the partitions.
        """
        inner = self._engine.basic_optimizer
        places = {name: self._partitions.updated(p) for name, p in names.parameters.items()}
        copies = {name: place for name, place in places.items() if place is not None}
        if not copies:
            # Each parameter is updated itself, or by a wider copy of the same shape.
            by_id = {id(parameter): name for name, parameter in names.parameters.items()}
            pairs = [pair for group in _groups(self._engine, inner) for pair in group]
            known = {
                id(one): by_id[id(of[0])]
                for one, of in pairs
                if len(of) == 1 and one.shape == of[0].shape and id(of[0]) in by_id
            }
            yield from state_tensors(inner, known, names.parameters)
        for name, (flat, part, placements) in copies.items():
            if flat.dtype != names.parameters[name].dtype:
                yield StateTensor(name, MAIN_PARAM, flat.detach()[part], True, placements)
            for key, value in inner.state.get(flat, {}).items():
                if isinstance(value, torch.Tensor) and value.shape == flat.shape:
                    yield StateTensor(name, str(key), value[part], True, placements)


def loss_scale(engine: Engine) -> float:
    """The factor by which the engine multiplies losses; 1 except in fp16."""
    return float(getattr(engine.optimizer, "loss_scale", 1.0))


def _groups(engine: Engine, inner: torch.optim.Optimizer) -> list[list[tuple[Any, Sequence[Any]]]]:
    """For each parameter group the updated tensors, each with the parameters it is made of."""
    wrapper = engine.optimizer
    if wrapper is inner:
        return [[(p, [p]) for p in group["params"]] for group in inner.param_groups]
    subgroups = getattr(wrapper, "sub_group_to_group_id", None)
    if subgroups is not None:
        groups: list[list[tuple[Any, Sequence[Any]]]] = [[] for _ in inner.param_groups]
        for number, group in subgroups.items():
            flat = wrapper.fp32_partitioned_groups_flat[number]
            groups[group].append((flat, wrapper.fp16_groups[number]))
        return groups
    for updated, parameters in _GROUPS:
        if hasattr(wrapper, updated) and hasattr(wrapper, parameters):
            return [
                [(one, [p]) for one, p in zip(ones, group)]
                if isinstance(ones, list)
                else [(ones, group)]
                for ones, group in zip(getattr(wrapper, updated), getattr(wrapper, parameters))
            ]
    raise TraceError(
        f"{type(wrapper).__name__} does not tell which parameters its groups are of; tested is "
        "DeepSpeed 0.19.8 with ZeRO-0 to 3"
    )


@contextmanager
def _clipped_norms() -> Iterator[list[Any]]:
    """Collects the norms of the engine's own clipping; without ZeRO it keeps none."""
    module: Any = sys.modules["deepspeed.runtime.engine"]
    clip = module.clip_grad_norm_
    norms: list[Any] = []

    def clip_grad_norm_(*args: Any, **kwargs: Any) -> Any:
        norms.append(clip(*args, **kwargs))
        return norms[-1]

    module.clip_grad_norm_ = clip_grad_norm_
    try:
        yield norms
    finally:
        module.clip_grad_norm_ = clip
