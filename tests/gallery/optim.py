"""SGD on fp32 main parameters."""

from collections.abc import Iterable

import torch
from torch import nn

from gallery.config import Config


class Optimizer:
    """SGD with momentum, from main gradients.

    A bf16 parameter has an fp32 copy, `p.main_param`: it is the one that moves, so that small
    updates are not lost, and it is rounded back after each step.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], config: Config) -> None:
        self.parameters = list(parameters)
        for parameter in self.parameters:
            if parameter.dtype != torch.float32:
                parameter.main_param = nn.Parameter(parameter.detach().float())
        self.sgd = torch.optim.SGD(
            [_main(parameter) for parameter in self.parameters],
            lr=config.learning_rate,
            momentum=config.momentum,
        )

    @torch.no_grad()
    def step(self) -> None:
        for parameter in self.parameters:
            _main(parameter).grad = parameter.main_grad
        self.sgd.step()
        self.sgd.zero_grad()  # an fp32 parameter is its own main one: autograd would add to this
        for parameter in self.parameters:
            if _main(parameter) is not parameter:
                parameter.copy_(_main(parameter))


def _main(parameter: nn.Parameter) -> nn.Parameter:
    return getattr(parameter, "main_param", parameter)
