"""Causal language models of transformers in the plain structure that most of them share: an
embedding, layers, a norm and a head, one after the other."""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from ttrace_torch.matrix.errors import MatrixError

# What such a decoder has, as members of its `model`.
_MEMBERS = ("embed_tokens", "layers", "norm", "rotary_emb")
_OF_BATCH = {"input_ids", "labels", "use_cache"}


def layers_of(model: Any) -> Any:
    """The layers of a model of transformers with that structure; None for any other."""
    inner: Any = getattr(model, "model", None)
    of_transformers = "transformers" in sys.modules and hasattr(model, "loss_function")
    if not of_transformers or not isinstance(getattr(model, "lm_head", None), nn.Module):
        return None
    return inner.layers if all(hasattr(inner, name) for name in _MEMBERS) else None


def is_tied(model: Any) -> bool:
    """Whether the head of such a model is its embedding."""
    return model.lm_head.weight is model.model.embed_tokens.weight


def ids_of(batch: Any) -> tuple[torch.Tensor, ...]:
    """What the first stage of such a model takes of a micro-batch. Throws MatrixError."""
    further = sorted(set(batch) - _OF_BATCH) if isinstance(batch, Mapping) else ["no mapping"]
    if further or "input_ids" not in batch or "labels" not in batch:
        raise MatrixError(
            "batches: a pipeline of a model of transformers is fed with input_ids and labels, and "
            f"a micro-batch has {', '.join(further) or 'one of them'}; give pipeline= and loss="
        )
    return (batch["input_ids"],)


def cut_between_layers(model: Any, index: int, stages: int, batch: Any) -> None:
    """Leaves one stage's layers in the model, which then runs them alone.

    batch: a micro-batch. What the layers get besides what flows through them, masks and rotary
        embeddings, follows from its shape: the whole model is run once to see it.
    Throws MatrixError if the model does more than run one part after the other.
    """
    if is_tied(model):
        raise MatrixError(
            f"pipeline: the head of {type(model).__name__} is tied to its embedding, which lies in "
            "another stage; give pipeline=, or untie them (tie_word_embeddings=False)"
        )
    inner, layers = model.model, list(model.model.layers)
    (ids,) = ids_of(batch)
    with torch.no_grad():
        wanted, given = _seen(model, layers, ids)
        got = _run(inner.embed_tokens, layers, given, (inner.norm, model.lm_head), ids)
    if not torch.equal(wanted, got):
        raise MatrixError(
            f"pipeline: {type(model).__name__} does more than run its embedding, layers, norm and "
            "head one after the other; give pipeline=, a function of (model, stage, stages)"
        )
    kept = range(index * len(layers) // stages, (index + 1) * len(layers) // stages)
    inner.layers = nn.ModuleDict({str(number): layers[number] for number in kept})
    first, last = index == 0, index == stages - 1
    if not first:
        inner.embed_tokens = None
    if not last:
        inner.norm = model.lm_head = None

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        end = (self.model.norm, self.lm_head) if last else ()
        own = list(self.model.layers.values())
        return _run(self.model.embed_tokens, own, [given[i] for i in kept], end, x)

    model.forward = types.MethodType(forward, model)


_Given = list[tuple[tuple[Any, ...], dict[str, Any]]]


def _seen(model: Any, layers: list[nn.Module], ids: torch.Tensor) -> tuple[torch.Tensor, _Given]:
    """The logits of the whole model, and what each layer was given besides its input."""
    given: _Given = []
    hooks = [
        layer.register_forward_pre_hook(
            lambda _, args, kwargs: given.append((args[1:], kwargs)), with_kwargs=True
        )
        for layer in layers
    ]
    try:
        logits = model(input_ids=ids).logits
    finally:
        for hook in hooks:
            hook.remove()
    if len(given) != len(layers) or any("hidden_states" in kwargs for _, kwargs in given):
        raise MatrixError(
            f"pipeline: the layers of {type(model).__name__} are not run one after the other; give "
            "pipeline=, a function of (model, stage, stages)"
        )
    return logits, given


def _run(
    embedding: Any, layers: list[Any], given: _Given, end: tuple[Any, ...], x: torch.Tensor
) -> torch.Tensor:
    """The parts of a decoder, one after the other."""
    hidden = x if embedding is None else embedding(x)
    for layer, (args, kwargs) in zip(layers, given):
        hidden = layer(hidden, *args, **kwargs)
        hidden = hidden[0] if isinstance(hidden, tuple) else hidden
    for module in end:
        hidden = module(hidden)
    return hidden
