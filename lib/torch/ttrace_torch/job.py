"""What a tracer works with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ttrace_torch.base.names import ModelNames
from ttrace_torch.capture.selection import Selection, Steps, WritingRanks
from ttrace_torch.frameworks.framework import Framework
from ttrace_torch.layout.assignment import Assignment
from ttrace_torch.layout.data_axes import DataRanks
from ttrace_torch.optimizer.scaler import ScalerWatch
from ttrace_torch.perturb.perturber import Perturber
from ttrace_torch.rewrite.rewriter import Rewriter
from ttrace_torch.specification.reference_run import NoReference, ReferenceRun
from ttrace_torch.write.output import Output


@dataclass(frozen=True)
class TracedJob:
    """All that a tracer works with: `ttrace_torch.trace` makes it from a model and a `TraceConfig`.

    names: canonical names of the model's modules and parameters.
    assignment: the layouts of its modules and parameters.
    selection: the kinds, modules and parameters to record on this rank.
    output: this rank's file.
    optimizer: the optimizer whose steps are followed; None without one.
    perturber, rewriter: the changes of a noise run and of a rewritten run; None without one.
    reference: records the specification of the first traced step.
    interleaved: whether data-parallel ranks take micro-batches in turn, not in blocks.
    data: the data-parallel ranks, which number the micro-batches.
    divisor: what the job itself divides gradients by after their backward.
    """

    names: ModelNames
    assignment: Assignment
    selection: Selection
    output: Output
    optimizer: Any = None
    framework: Framework = field(default_factory=lambda: Framework(None))
    perturber: Perturber | None = None
    rewriter: Rewriter | None = None
    reference: ReferenceRun = field(default_factory=NoReference)
    steps: Steps = field(default_factory=Steps)
    writing: WritingRanks = field(default_factory=lambda: WritingRanks(None))
    interleaved: bool = False
    data: DataRanks = field(default_factory=lambda: DataRanks((0,), (0, 1)))
    scaler: ScalerWatch = field(default_factory=lambda: ScalerWatch(None))
    divisor: float = 1.0

    def lacks_main_gradients(self) -> bool:
        """Whether main gradients were to be recorded, and only raw ones were."""
        if "main_grad" not in self.selection.kinds or self.output.recorded_kind("main_grad"):
            return False
        return self.output.recorded_kind("param_grad")
