"""What a matrix trains: a model, the micro-batches of a step, and how they become a loss."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Callable

import numpy as np
import torch
from torch import nn

from ttrace_torch.matrix.errors import MatrixError

_MOST_BATCHES = 1024


def adamw(parameters: Iterable[Any]) -> torch.optim.Optimizer:
    """The optimizer of a job that names none."""
    return torch.optim.AdamW(parameters, lr=1e-3)


@dataclass(frozen=True)
class Job:
    """The arguments of `assert_equivalent` that say what is trained; see there."""

    build: Callable[[], nn.Module]
    batches: tuple[Any, ...]
    loss: Callable[[Any, Any], torch.Tensor] | None = None
    optimizer: Callable[[Iterable[Any]], torch.optim.Optimizer] = adamw
    parallelize: Callable[..., Any] | None = None
    pipeline: Callable[..., Any] | None = None
    steps: int = 1
    seed: int = 0
    threads: int = 1

    def model(self, device: torch.device) -> nn.Module:
        """A new model, made after the same seeds every time. Throws MatrixError for none."""
        seed_all(self.seed)
        made = self.build()
        if not isinstance(made, nn.Module):
            raise MatrixError(f"build returned a {type(made).__name__}; it returns a torch module")
        return made.to(device)

    def batch(self, number: int, device: torch.device) -> Any:
        """A micro-batch on the device."""
        return moved(self.batches[number], device)

    def forward(self, model: nn.Module, batch: Any) -> tuple[torch.Tensor, dict[str, Any]]:
        """The loss of a micro-batch, and what it took besides the model's output."""
        if self.loss is None:
            return loss_in(called(model, batch)), {}
        inputs, target = pair(batch)
        loss = self.loss(called(model, inputs), target)
        return loss, {"target": target} if isinstance(target, torch.Tensor) else {}


def seed_all(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def read_batches(given: Any, seed: int) -> tuple[Any, ...]:
    """The micro-batches of a step, given as they are or by a function. Throws MatrixError."""
    seed_all(seed)
    made = given() if callable(given) else given
    if isinstance(made, (torch.Tensor, Mapping, str)) or not isinstance(made, Iterable):
        raise MatrixError(
            f"batches is a {type(made).__name__}; give a list with one entry for each micro-batch "
            "of a step"
        )
    batches = tuple(itertools.islice(made, _MOST_BATCHES + 1))
    if not batches:
        raise MatrixError("batches is empty; give the micro-batches of a step")
    if len(batches) > _MOST_BATCHES:
        raise MatrixError(
            f"batches has more than {_MOST_BATCHES} entries; give the micro-batches of one step"
        )
    return batches


def pair(batch: Any) -> tuple[Any, Any]:
    """A micro-batch of a job with a loss of its own. Throws MatrixError."""
    if isinstance(batch, (tuple, list)) and len(batch) == 2:
        return batch[0], batch[1]
    raise MatrixError(
        "batches: with loss= a micro-batch is a pair (inputs of the model, target of the loss), "
        f"and one is a {type(batch).__name__}"
    )


def called(model: nn.Module, inputs: Any) -> Any:
    """The model called with a mapping as keyword arguments, a tuple as arguments, else as is."""
    if isinstance(inputs, Mapping):
        return model(**inputs)
    if isinstance(inputs, (tuple, list)):
        return model(*inputs)
    return model(inputs)


def loss_in(output: Any) -> torch.Tensor:
    """The loss that a model returned, alone or as `loss` of its output. Throws MatrixError."""
    found = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    found = output if found is None else found
    if isinstance(found, torch.Tensor) and found.numel() == 1:
        return found
    raise MatrixError(
        f"the model returned a {type(output).__name__} without a loss; put labels into batches, or "
        "give loss= and pairs (inputs, target)"
    )


def moved(value: Any, device: torch.device) -> Any:
    """A nest of tuples, lists and mappings with its tensors on the device."""
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, Mapping):
        return {key: moved(item, device) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return tuple(moved(item, device) for item in value)
    return value
