"""What one stage of a pipeline does for one micro-batch: its forward, and later its backward."""

import torch
from torch import Tensor

from gallery import bugs
from gallery.config import Config
from gallery.data import local_tokens, valid_tokens
from gallery.loss import mean_loss, mean_loss_without_padding
from gallery.model import Gpt
from gallery.parallel import ProcessMesh
from gallery.pipeline import Neighbours
from gallery.tracing import Tracer, loss_placements


class MicroBatches:
    """The micro-batches of a step on this rank, by their turns.

    `loss` is this rank's term of the step's loss, which is summed over all ranks that differ in
    tokens or stages.
    """

    def __init__(
        self, config: Config, model: Gpt, mesh: ProcessMesh, tracer: Tracer, step: int
    ) -> None:
        self.loss = torch.zeros(())
        self._config, self._model, self._mesh = config, model, mesh
        self._tracer, self._step = tracer, step
        self._neighbours = Neighbours(mesh["pp"], config.hidden_shape, config.dtype)
        self._under_way: dict[int, tuple[Tensor | None, Tensor]] = {}

    def number(self, turn: int) -> int:
        """The global number of this rank's micro-batch."""
        return self._mesh["dp"].index * self._config.microbatches_of_rank + turn

    def forward(self, turn: int) -> None:
        model, cp = self._model, self._mesh["cp"]
        ids, labels = local_tokens(self._config, cp, self._step, self.number(turn))
        model.random.begin(self._step, self.number(turn))
        virtual = model.virtual is not None
        if not (model.stage.first or virtual):
            model.received = self._neighbours.receive_activation(turn)
        output = model(ids, labels)
        if model.stage.last:
            output = self._mean(output, labels)
            self._tracer.loss(output, loss_placements(self._config))
            self.loss += output.detach() / self._config.microbatches
        elif not virtual:
            self._neighbours.send_activation(output, turn)
        self._under_way[turn] = model.received, output

    def backward(self, turn: int) -> None:
        """Leaves the raw gradients in the parameters' `grad`."""
        received, output = self._under_way.pop(turn)
        if self._model.stage.last:
            scale = self._config.scale_of_loss * (self._config.cp if bugs.active("P3") else 1)
            (output * scale if scale != 1 else output).backward()
        elif self._model.virtual is not None:
            output.backward()
        else:
            count = self._config.microbatches_of_rank
            output.backward(self._neighbours.receive_gradient(turn, count))
        if received is not None:
            self._neighbours.send_gradient(received.grad, turn)

    def finish(self) -> None:
        """Waits until the neighbours have what they were sent."""
        self._neighbours.wait()
        if self._model.virtual is not None:
            self._model.virtual.wait()

    def _mean(self, token_losses: Tensor, labels: Tensor) -> Tensor:
        cp = self._mesh["cp"].size
        if not self._config.padding:
            return mean_loss(token_losses, cp)
        tokens = valid_tokens(self._config, self._step) / self._config.microbatches
        return mean_loss_without_padding(token_losses, labels, tokens, cp)
