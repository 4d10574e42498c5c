"""The samples of trl's online trainers: GRPO, RLOO.

They generate completions for a batch of prompts, shuffle them on each process, and cut them into
micro-batches, so that a layout trains on the same samples in another order. A micro-batch is
therefore known by the places that its samples had before they were shuffled.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from ttrace_torch.base.process import say_for_job

_GENERATE, _PREPARE = "_generate_and_score_completions", "_prepare_inputs"
_PLACES = "ttrace_places"


def generates(trainer: Any) -> bool:
    """Whether a trainer makes the samples that it trains on."""
    return hasattr(trainer, _GENERATE) and hasattr(trainer, _PREPARE)


def follow_samples(trainer: Any, met: Callable[[list[int]], None]) -> None:
    """Tells `met` the samples of each micro-batch before it runs, until `forget_samples`.

    A sample's number is its place among the samples that all processes generate together.
    """
    generate, prepare = getattr(trainer, _GENERATE), getattr(trainer, _PREPARE)

    @wraps(generate)
    def numbered(inputs: Any, *rest: Any, **named: Any) -> Any:
        samples = generate(inputs, *rest, **named)
        if trainer.model.training:
            first = trainer.accelerator.process_index * len(inputs)
            samples[_PLACES] = torch.arange(first, first + len(inputs))
        return samples

    @wraps(prepare)
    def met_in_turn(*given: Any, **named: Any) -> Any:
        inputs = prepare(*given, **named)
        places = inputs.get(_PLACES) if isinstance(inputs, dict) else None
        if places is None:
            say_for_job("the samples of a micro-batch are not known: numbers count the forwards")
        else:
            met(places.tolist())
        return inputs

    setattr(trainer, _GENERATE, numbered)
    setattr(trainer, _PREPARE, met_in_turn)


def forget_samples(trainer: Any) -> None:
    """Undoes `follow_samples`."""
    for name in (_GENERATE, _PREPARE):
        vars(trainer).pop(name, None)
