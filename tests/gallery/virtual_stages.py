"""A pipeline whose stages have several chunks of layers: activations go round all stages again.

Unlike `pipeline.py`, sending and receiving are operations that autograd knows, so that one forward
and one backward of a rank are those of all its chunks, in the right order.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function

from gallery.parallel import Axis

Run = Callable[[Tensor, Iterable[int]], Tensor]


class VirtualStages:
    """The chunks of a stage, one after the other; of [s, b, h] tensors.

    Sending does not wait: `wait` does, at the end of the step.
    """

    def __init__(self, pp: Axis, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        self._pp = pp
        self._shape, self._dtype = shape, dtype
        self._sent: list[tuple[dist.Work, Tensor]] = []

    def run(self, x: Tensor | None, chunks: Sequence[range], run: Run) -> Tensor:
        """Runs the chunks in turn, the first stage's first one on x.

        Returns the output of the last stage's last chunk; on other stages a number that depends on
        all that was sent, for `backward`.
        """
        index, size = self._pp.index, self._pp.size
        token = torch.zeros((), requires_grad=True)
        for number, chunk in enumerate(chunks):
            if index > 0 or number > 0:
                x = _Receive.apply(token, self, (index - 1) % size)
            x = run(x, chunk)
            if index == size - 1 and number == len(chunks) - 1:
                return x
            token = _Send.apply(x, self, (index + 1) % size)
        return token

    def send(self, x: Tensor, stage: int) -> None:
        x = x.detach().contiguous()
        self._sent.append((dist.isend(x, self._pp.ranks[stage]), x))

    def receive(self, stage: int) -> Tensor:
        x = torch.empty(self._shape, dtype=self._dtype)
        dist.recv(x, self._pp.ranks[stage])
        return x

    def wait(self) -> None:
        for work, _ in self._sent:
            work.wait()
        self._sent.clear()


class _Send(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, stages: VirtualStages, stage: int) -> Tensor:
        ctx.stages, ctx.stage = stages, stage
        stages.send(x, stage)
        return torch.zeros(())

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor, None, None]:
        return ctx.stages.receive(ctx.stage), None, None


class _Receive(Function):
    @staticmethod
    def forward(ctx: Any, token: Tensor, stages: VirtualStages, stage: int) -> Tensor:
        ctx.stages, ctx.stage = stages, stage
        return stages.receive(stage)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        ctx.stages.send(gradient, ctx.stage)
        return torch.zeros(()), None, None
