"""SGD or AdamW on fp32 main parameters."""

from collections.abc import Iterable

import torch
from torch import nn

from gallery.config import Config
from gallery.zero import Buckets


class Optimizer:
    """Updates the parameters from their main gradients.

    A 16-bit parameter has an fp32 copy, `p.main_param`: it is the one that moves, so that small
    updates are not lost, and it is rounded back after each step. With ZeRO every parameter has
    one, of this rank's range.
    """

    def __init__(
        self, parameters: Iterable[nn.Parameter], config: Config, buckets: Buckets | None
    ) -> None:
        self.parameters = list(parameters)
        self.buckets = buckets
        for parameter in self.parameters:
            held = parameter.detach()
            if buckets is not None:
                parameter.main_param = nn.Parameter(buckets.own(parameter, held).float().clone())
            elif parameter.dtype != torch.float32:
                parameter.main_param = nn.Parameter(held.float())
        self.inner = _torch_optimizer([_main(parameter) for parameter in self.parameters], config)

    @torch.no_grad()
    def step(self) -> None:
        for parameter in self.parameters:
            _main(parameter).grad = parameter.main_grad
        self.inner.step()
        self.inner.zero_grad()  # an fp32 parameter is its own main one: autograd would add to this
        if self.buckets is not None:
            self.buckets.gather_parameters()
            return
        for parameter in self.parameters:
            if _main(parameter) is not parameter:
                parameter.copy_(_main(parameter))


def _torch_optimizer(parameters: list[nn.Parameter], config: Config) -> torch.optim.Optimizer:
    if config.optimizer == "adamw":
        return torch.optim.AdamW(
            parameters, lr=config.learning_rate, weight_decay=config.weight_decay
        )
    return torch.optim.SGD(parameters, lr=config.learning_rate, momentum=config.momentum)


def _main(parameter: nn.Parameter) -> nn.Parameter:
    return getattr(parameter, "main_param", parameter)
