"""DeepSpeed: an engine of ZeRO stage 0 to 3 describes mesh, partitions, micro-batches and scales.

Nothing of DeepSpeed is imported, and none of its gathering functions is called. A rank reads its
own partition, and computes those of the others from the tables of partitions.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import distributed, nn

from ttrace_torch.base.names import ModelNames
from ttrace_torch.capture.selection import Selection
from ttrace_torch.capture.turns import Turns
from ttrace_torch.errors import TraceError
from ttrace_torch.frameworks.deepspeed_api import Engine
from ttrace_torch.frameworks.deepspeed_limits import check_engine, check_kinds
from ttrace_torch.frameworks.deepspeed_optimizer import EngineWatch, loss_scale
from ttrace_torch.frameworks.deepspeed_partitions import Partitions
from ttrace_torch.frameworks.deepspeed_stages import partitions_of
from ttrace_torch.frameworks.deepspeed_steps import MicroSteps
from ttrace_torch.frameworks.framework import Framework, Listener, StepWatch, Watch
from ttrace_torch.layout.assignment import Assignment
from ttrace_torch.layout.mesh import Mesh

_ENGINE = "deepspeed.runtime.engine"


class DeepSpeed(Framework):
    """The engine that `deepspeed.initialize` returns first."""

    name = "deepspeed"
    # The schedules and engines do.
    counts_forwards = False
    numbers_microbatches = True
    expects_optimizer = False

    def __init__(self, model: Any) -> None:
        if not self.made(model):
            raise TraceError(
                f'framework="deepspeed": {type(model).__name__} is no DeepSpeedEngine; give the '
                "first of what deepspeed.initialize returned"
            )
        version = getattr(sys.modules["deepspeed"], "__version__", "")
        self.label = f"DeepSpeed {version}".strip()
        self._engine: Engine = model
        group = model.seq_data_parallel_group or distributed.group.WORLD
        self._ranks = [int(rank) for rank in distributed.get_process_group_ranks(group)]
        check_engine(model, self._ranks)
        self._partitions: Partitions = partitions_of(model, len(self._ranks))

    @staticmethod
    def made(model: Any) -> bool:
        """Whether `model` is a DeepSpeed engine."""
        engine = getattr(sys.modules.get(_ENGINE), "DeepSpeedEngine", None)
        return engine is not None and isinstance(model, engine)

    def meshes(
        self, mesh: Mesh | None, meshes: Mapping[str, Mesh] | None
    ) -> tuple[Mesh, Mapping[str, Mesh] | None]:
        if mesh is not None:
            raise TraceError(
                "mesh=...: DeepSpeed's data-parallel group tells the mesh; leave it out, or say "
                'framework="none" and describe everything by layouts'
            )
        return Mesh({"dp": len(self._ranks)}, self._ranks), meshes

    def layouts(self, names: ModelNames, described: Sequence[str]) -> Assignment:
        return Assignment({}, self._partitions.layouts(names))

    def check(self, selection: Selection, optimizer: Any) -> None:
        check_kinds(self._engine, selection)

    def scales(self) -> dict[str, float]:
        """Kind -> factor that makes a gradient the mean over all micro-batches.

        Each micro-batch's loss is divided by the number of micro-batches of its rank; the reduction
        divides by the number of ranks. Gradients before the reduction lack the second division.
        """
        engine = self._engine
        main = 1.0 / loss_scale(engine)
        raw = main / len(self._ranks) if getattr(engine, "gradient_average", True) else main
        return {"grad_output": raw, "param_grad": raw, "main_grad": main}

    def optimizer(self, given: Any) -> Any:
        """The engine's own optimizer, which alone makes its steps."""
        own = getattr(self._engine, "optimizer", None)
        inner = getattr(self._engine, "basic_optimizer", None)
        if given is not None and given is not own and given is not inner:
            raise TraceError(
                f"optimizer: {type(given).__name__} is not the engine's; leave it out, the engine "
                "has its own"
            )
        return None if inner is None else own

    def data_ranks(self) -> tuple[int, ...] | None:
        return tuple(self._ranks)

    def held(self, name: str, parameter: nn.Parameter, kind: str) -> torch.Tensor | None:
        return self._partitions.held(name, parameter, kind)

    def watch_optimizer(self, optimizer: Any, tracer: Listener) -> Watch:
        return EngineWatch(self._engine, tracer, self._partitions)

    def watch_step(self, tracer: Listener, turns: Turns) -> AbstractContextManager[StepWatch]:
        place = self._ranks.index(distributed.get_rank())
        return MicroSteps(self._engine, tracer, place).watching()
