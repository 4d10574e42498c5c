"""The stages of a pipeline: made of the model's modules by the user's function, or by the plain
structure that decoders of transformers share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Callable

import torch
from torch import nn

from ttrace_torch.matrix.decoders import cut_between_layers, ids_of, layers_of
from ttrace_torch.matrix.errors import MatrixError
from ttrace_torch.matrix.job import Job, pair
from ttrace_torch.matrix.words import Word


@dataclass(frozen=True)
class Feeding:
    """How a pipeline gets its micro-batches.

    inputs: maps a micro-batch to the first stage's arguments.
    loss: maps the last stage's output and a micro-batch to the loss, and to the other tensors that
        the loss was computed from, by name.
    """

    inputs: Callable[[Any], tuple[torch.Tensor, ...]]
    loss: Callable[[Any, Any], tuple[torch.Tensor, dict[str, Any]]]


def stage_of(job: Job, model: nn.Module, word: Word, index: int, device: torch.device) -> nn.Module:
    """The module of one stage. Throws MatrixError where nothing says how to make it."""
    if job.pipeline is not None:
        made = job.pipeline(model, index, word.stages)
        if not isinstance(made, nn.Module):
            raise MatrixError(f"pipeline returned a {type(made).__name__}; it returns a module")
        return made
    layers = layers_of(model)
    if layers is None:
        raise MatrixError(
            f"pipeline: {word.text!r} has stages, and nothing says how to cut a "
            f"{type(model).__name__}; give pipeline=, a function of (model, stage, stages)"
        )
    if len(layers) < word.stages:
        raise MatrixError(
            f"layouts: {word.text!r} has {word.stages} stages, and {type(model).__name__} has "
            f"{len(layers)} layers"
        )
    cut_between_layers(model, index, word.stages, job.batch(0, device))
    return model


def names_of(whole: Mapping[Any, str], stage: nn.Module) -> Callable[..., str]:
    """A function for `trace(rename=...)`: from a name in the stage to the name of the same module
    or parameter in the whole model.

    whole: what the whole model consisted of, and its names.
    """
    found = {name: whole[one] for name, one in members(stage) if one in whole}

    def rename(name: str) -> str:
        rest = ""
        while name not in found and "." in name:
            name, _, last = name.rpartition(".")
            rest = "." + last + rest
        return f"{found.get(name, name)}{rest}"

    return rename


def members(model: nn.Module) -> Iterator[tuple[str, Any]]:
    """Names of modules and parameters, but for the root."""
    for name, module in model.named_modules():
        if name:
            yield name, module
    yield from model.named_parameters(remove_duplicate=False)


def feeding(job: Job, model: Any) -> Feeding:
    """How a pipeline of the model is fed. Throws MatrixError where nothing says how."""
    if job.loss is not None:
        loss_of = job.loss

        def loss(output: Any, batch: Any) -> tuple[torch.Tensor, dict[str, Any]]:
            target = pair(batch)[1]
            data = {"target": target} if isinstance(target, torch.Tensor) else {}
            return loss_of(output, target), data

        return Feeding(lambda batch: _tensors(pair(batch)[0]), loss)
    if hasattr(model, "loss_function") and hasattr(model, "config"):
        return Feeding(ids_of, lambda output, batch: _loss_of_labels(model, output, batch))
    raise MatrixError(
        "loss: a pipeline hands the last stage's output on; give loss= and pairs (inputs, target) "
        "as batches"
    )


def _tensors(inputs: Any) -> tuple[torch.Tensor, ...]:
    given = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    if not all(isinstance(one, torch.Tensor) for one in given):
        raise MatrixError("batches: the first stage of a pipeline takes tensors, one or a tuple")
    return given


def _loss_of_labels(model: Any, output: Any, batch: Any) -> tuple[torch.Tensor, dict[str, Any]]:
    labels = batch["labels"]
    words = model.config.vocab_size
    return model.loss_function(logits=output, labels=labels, vocab_size=words), {}
