"""What belongs to one traced step, and what is recorded of every step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ttrace_torch.calls import CallCounter
from ttrace_torch.dataflow import DataFlow
from ttrace_torch.gradients import GradientHooks
from ttrace_torch.record import Recorder


@dataclass(frozen=True)
class Selection:
    """What is recorded: kinds, and the canonical names of modules and parameters."""

    kinds: tuple[str, ...]
    modules: set[str]
    parameters: set[str]


class Step:
    """What belongs to one traced step and ends with it."""

    def __init__(self, number: int, recorder: Recorder, flow: DataFlow | None) -> None:
        self.number = number
        self.flow = flow
        self.recorder = recorder
        self.calls = CallCounter()
        self.gradients = GradientHooks(number, recorder, self.calls)
        self.main_grads_done = False
        self.updated = False
        self.params_after_done = False
        self.in_microbatch = False
        self.clip_norm: float | None = None
        self.optimizer: list[dict[str, Any]] = []
