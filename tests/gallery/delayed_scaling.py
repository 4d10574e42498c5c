"""Output gradients in FP8, as with Transformer Engine's delayed scaling, emulated in fp32.

They are multiplied by 57344 / max|g| and rounded to E5M2, the maximum taken over the micro-batches
and ranks of the step before. The first step's scale is 1.
"""

import torch
import torch.distributed as dist
from torch import Tensor

from gallery import bugs
from gallery.collectives import all_reduce
from gallery.config import Config
from gallery.parallel import ProcessMesh

E5M2 = torch.float8_e5m2
LARGEST = torch.finfo(E5M2).max


class GradientScale:
    """The scale of one layer's output gradients."""

    def __init__(self, config: Config, mesh: ProcessMesh) -> None:
        self._axes = [mesh[name] for name in ("dp", "cp", "tp")]
        self._recompute = config.recompute
        self._scale = torch.ones(())
        self._largest = torch.zeros(())
        self._listed = False

    def forward(self) -> None:
        """Lists the scale for an update at the end of the step.

        Forwards without a graph do not, for no backward follows them.
        """
        recomputed = self._recompute and torch.is_grad_enabled()
        # The recomputation leaves this to the forward that it repeats.
        if torch.is_grad_enabled() and not (recomputed and bugs.active("G14")):
            self._listed = True

    def rounded(self, gradient: Tensor) -> Tensor:
        self._largest = torch.maximum(self._largest, gradient.abs().amax())
        scaled = (gradient * self._scale).clamp(-LARGEST, LARGEST)
        return scaled.to(E5M2).float() / self._scale

    def finish_step(self) -> None:
        if self._listed:
            for axis in self._axes:
                self._largest = all_reduce(self._largest, axis, dist.ReduceOp.MAX)
            if self._largest > 0:
                self._scale = LARGEST / self._largest
        self._largest = torch.zeros(())
        self._listed = False
