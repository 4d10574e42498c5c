"""The stages of a pipeline: made of the model's modules by the user's function, or by the plain
structure that decoders of transformers share."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Callable

import torch
from torch import nn

from ttrace_torch.matrix.decoders import is_tied, layers_of
from ttrace_torch.matrix.errors import MatrixError
from ttrace_torch.matrix.job import Job, pair
from ttrace_torch.matrix.words import Word

_OF_BATCH = {"input_ids", "labels", "use_cache"}


@dataclass(frozen=True)
class Feeding:
    """What a pipeline is fed with.

    inputs: the first stage's arguments for one micro-batch.
    loss: the loss from the last stage's output and a micro-batch, and what it took besides.
    """

    inputs: Callable[[Any], tuple[torch.Tensor, ...]]
    loss: Callable[[Any, Any], tuple[torch.Tensor, dict[str, Any]]]


def stage_of(job: Job, model: nn.Module, word: Word, index: int) -> nn.Module:
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
    if is_tied(model):
        raise MatrixError(
            f"pipeline: the head of {type(model).__name__} is tied to its embedding, which lies in "
            "another stage; give pipeline=, or untie them (tie_word_embeddings=False)"
        )
    if len(layers) < word.stages:
        raise MatrixError(
            f"layouts: {word.text!r} has {word.stages} stages, and {type(model).__name__} has "
            f"{len(layers)} layers"
        )
    _leave_stage(model, index, word.stages)
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
        return Feeding(_ids, lambda output, batch: _loss_of_labels(model, output, batch))
    raise MatrixError(
        "loss: a pipeline hands the last stage's output on; give loss= and pairs (inputs, target) "
        "as batches"
    )


def _tensors(inputs: Any) -> tuple[torch.Tensor, ...]:
    given = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    if not all(isinstance(one, torch.Tensor) for one in given):
        raise MatrixError("batches: the first stage of a pipeline takes tensors, one or a tuple")
    return given


def _ids(batch: Any) -> tuple[torch.Tensor, ...]:
    further = sorted(set(batch) - _OF_BATCH) if isinstance(batch, Mapping) else ["no mapping"]
    if further or "input_ids" not in batch or "labels" not in batch:
        raise MatrixError(
            "batches: a pipeline of a model of transformers is fed with input_ids and labels, and "
            f"a micro-batch has {', '.join(further) or 'one of them'}; give pipeline= and loss="
        )
    return (batch["input_ids"],)


def _loss_of_labels(model: Any, output: Any, batch: Any) -> tuple[torch.Tensor, dict[str, Any]]:
    labels = batch["labels"]
    words = model.config.vocab_size
    return model.loss_function(logits=output, labels=labels, vocab_size=words), {}


def _leave_stage(model: Any, index: int, stages: int) -> None:
    """Leaves a stage's layers in the model, which then runs them alone."""
    inner = model.model
    count = len(inner.layers)
    kept = range(index * count // stages, (index + 1) * count // stages)
    inner.layers = nn.ModuleDict({str(number): inner.layers[number] for number in kept})
    first, last = index == 0, index == stages - 1
    if not first:
        inner.embed_tokens = None
    if not last:
        inner.norm = model.lm_head = None

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        hidden = self.model.embed_tokens(x) if first else x
        places = torch.arange(hidden.shape[1], device=hidden.device).unsqueeze(0)
        # Not as a module: what it is given differs from stage to stage, and nothing of it is read
        # but type and device.
        rotary = self.model.rotary_emb.forward(hidden, position_ids=places)
        for layer in self.model.layers.values():
            hidden = layer(
                hidden, attention_mask=None, position_embeddings=rotary, position_ids=places
            )
        return self.lm_head(self.model.norm(hidden)) if last else hidden

    model.forward = types.MethodType(forward, model)
