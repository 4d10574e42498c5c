"""The plain structure that causal language models of transformers share."""

from __future__ import annotations

import sys
from typing import Any

from torch import nn

# What such a decoder has, as members of its `model`.
_MEMBERS = ("embed_tokens", "layers", "norm", "rotary_emb")


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
