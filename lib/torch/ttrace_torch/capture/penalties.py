"""Passes of autograd that compute a term of the loss, such as the penalty of a gradient's norm.

    (slope,) = torch.autograd.grad(output.sum(), x, create_graph=True)

passes the model's outputs too, but computes no gradient of the loss there: the loss's own factors
(micro-batches, a loss scale) are not in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn


class PenaltyPasses:
    """Tells the passes that build a graph and reach no parameter."""

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        self._parameters = [parameter for parameter in parameters if parameter.requires_grad]
        # Number of the graph task, and whether it is such a pass.
        self._last: tuple[int, bool] | None = None

    def running(self) -> bool:
        """Whether the current pass is one. False outside of a pass."""
        if not torch.is_grad_enabled():
            return False
        task = torch._C._current_graph_task_id()
        if task == -1:
            return False
        if self._last is None or self._last[0] != task:
            self._last = (task, not any(map(_is_reached, self._parameters)))
        return self._last[1]


def _is_reached(parameter: nn.Parameter) -> bool:
    """Whether the current pass computes the gradient of `parameter`."""
    node: Any = parameter.view_as(parameter).grad_fn
    try:
        return bool(torch._C._will_engine_execute_node(node.next_functions[0][0]))
    except (AttributeError, RuntimeError):
        # The pass returns this gradient itself.
        return True
