"""What belongs to one traced step, and what is recorded of every step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ttrace_torch.calls import CallCounter
from ttrace_torch.dataflow import DataFlow
from ttrace_torch.gradients import GradientHooks
from ttrace_torch.record import KINDS, Recorder


@dataclass(frozen=True)
class Selection:
    """What is recorded: kinds, and the canonical names of modules and parameters.

    patterns: the globs that the modules were chosen by; None where all are recorded.
    """

    kinds: tuple[str, ...]
    modules: set[str]
    parameters: set[str]
    patterns: tuple[str, ...] | None = None

    def facts(self) -> dict[str, Any]:
        """The manifest's `run.recorded` without the steps."""
        # Without its index, a tensor cut by rows cannot be read.
        kinds = [kind for kind in KINDS if kind in self.kinds or (kind == "index" and self.kinds)]
        facts: dict[str, Any] = {"kinds": kinds}
        if self.patterns is not None:
            facts["modules"] = list(self.patterns)
        return facts


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
