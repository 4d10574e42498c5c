"""SGD or AdamW on fp32 main parameters."""

from collections.abc import Iterable

import torch
from torch import nn

from gallery.config import Config
from gallery.parameters import is_expert
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
            _main(parameter).grad = self._own_gradient(parameter)
        self.inner.step()
        self.inner.zero_grad()  # an fp32 parameter is its own main one: autograd would add to this
        if self.buckets is not None:
            self.buckets.gather_parameters()
            return
        for parameter in self.parameters:
            if _main(parameter) is not parameter:
                parameter.copy_(_main(parameter))

    def by_expert(self) -> list[list[nn.Parameter]]:
        """The parameters of the model without experts, and those of the experts."""
        experts = [parameter for parameter in self.parameters if is_expert(parameter)]
        return [[p for p in self.parameters if not is_expert(p)], experts]

    def _own_gradient(self, parameter: nn.Parameter) -> torch.Tensor:
        if self.buckets is not None and self.buckets.has_whole_gradient(parameter):
            return self.buckets.own(parameter, parameter.main_grad)
        return parameter.main_grad


def _torch_optimizer(parameters: list[nn.Parameter], config: Config) -> torch.optim.Optimizer:
    if config.optimizer == "adamw":
        return torch.optim.AdamW(
            parameters, lr=config.learning_rate, weight_decay=config.weight_decay
        )
    return torch.optim.SGD(parameters, lr=config.learning_rate, momentum=config.momentum)


def _main(parameter: nn.Parameter) -> nn.Parameter:
    return getattr(parameter, "main_param", parameter)
