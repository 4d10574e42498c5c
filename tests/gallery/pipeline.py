"""The micro-batches of a step through the stages of a pipeline: one forward, one backward.

Without a pipeline there is one stage, whose backward follows on each forward.
"""

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor

from gallery import bugs
from gallery.parallel import Axis

FORWARD, BACKWARD = "forward", "backward"


def schedule(pp: Axis, count: int, virtual: bool = False) -> Iterator[tuple[str, int]]:
    """What this stage does in which order: a direction, and the turn of the micro-batch.

    Earlier stages run ahead by the number of stages that follow, so that all are busy. Virtual
    stages do one micro-batch after the other.
    """
    ahead = 0 if virtual else min(pp.size - 1 - pp.index, count)
    for turn in range(count + ahead):
        if turn < count:
            yield FORWARD, turn
        if turn >= ahead:
            yield BACKWARD, turn - ahead


class Neighbours:
    """Activations to the next stage, their gradients to the one before; of [s, b, h] tensors.

    Sending does not wait: `wait` does, at the end of the step.
    """

    def __init__(self, pp: Axis, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        self._pp = pp
        self._shape, self._dtype = shape, dtype
        self._sent: list[tuple[dist.Work, Tensor]] = []

    def send_activation(self, x: Tensor, turn: int) -> None:
        self._send(x, self._pp.index + 1, 2 * turn)

    def receive_activation(self, turn: int) -> Tensor:
        return self._receive(self._pp.index - 1, 2 * turn).requires_grad_()

    def send_gradient(self, gradient: Tensor, turn: int) -> None:
        self._send(gradient, self._pp.index - 1, 2 * turn + 1)

    def receive_gradient(self, turn: int, count: int) -> Tensor:
        gradient = self._receive(self._pp.index + 1, 2 * turn + 1)
        return gradient / count if bugs.active("G6") else gradient

    def wait(self) -> None:
        for work, _ in self._sent:
            work.wait()
        self._sent.clear()

    def _send(self, x: Tensor, stage: int, tag: int) -> None:
        x = x.detach().contiguous()
        self._sent.append((dist.isend(x, self._pp.ranks[stage], tag=tag), x))

    def _receive(self, stage: int, tag: int) -> Tensor:
        x = torch.empty(self._shape, dtype=self._dtype)
        dist.recv(x, self._pp.ranks[stage], tag=tag)
        return x
