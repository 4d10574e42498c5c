"""Sequence parallelism for decoders of transformers, whose own plans have none.

Between embedding and head every rank has a part of the sequence. Attention and MLP gather it, and
what they return is scattered again. Norms run on the parts, so that their gradients are sums.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from torch import nn
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from ttrace_torch.matrix.decoders import is_tied, layers_of

_WHOLE, _PART = Replicate(), Shard(1)
_HEAD, _EMBEDDING = "lm_head", "model.embed_tokens"
# Styles of transformers that can be had along the sequence, by the module that has them; a layer's
# are under "".
_STYLES: dict[tuple[str, str], Callable[[], Any]] = {
    ("", "colwise"): ColwiseParallel,
    ("", "rowwise"): lambda: RowwiseParallel(output_layouts=_PART),
    (_EMBEDDING, "embedding_rowwise"): lambda: RowwiseParallel(
        input_layouts=_WHOLE, output_layouts=_WHOLE
    ),
    (_EMBEDDING, "embedding_colwise"): lambda: ColwiseParallel(output_layouts=_WHOLE),
    (_HEAD, "colwise_gather_output"): lambda: _head(),
    (_HEAD, "colwise_rep"): lambda: _head(),
}


def cut_sequence(model: nn.Module, mesh: Any, plan: Mapping[str, str]) -> str | None:
    """Cuts a model by its tp_plan, and its activations along the sequence. Returns why it cannot;
    the model is as before then.

    plan: styles by names of modules and parameters.
    """
    layers = layers_of(model)
    if layers is None or len(layers) == 0:
        return f"nothing says how the activations of {type(model).__name__} are cut"
    if is_tied(model):
        return f"{_HEAD} is tied to {_EMBEDDING}"
    styles: dict[str, Any] = {}
    for name, style in plan.items():
        try:
            module = model.get_submodule(name)
        except AttributeError:
            # A parameter, which the style of its module cuts.
            if name.rpartition(".")[0] in plan:
                continue
            module = None
        place = name if name in (_HEAD, _EMBEDDING) else ""
        fits = place or isinstance(module, nn.Linear)
        if not fits or (place, style) not in _STYLES:
            return f"the tp_plan has the style {style!r} for {name}"
        styles[name] = _STYLES[place, style]()
    if _HEAD not in styles:
        return f"the tp_plan leaves {_HEAD} whole"
    for number, layer in enumerate(layers):
        _add_layer(styles, f"model.layers.{number}", layer)
    # The embedding stays whole: positions are counted by it.
    styles["model.layers.0"] = PrepareModuleInput(
        input_layouts=(_WHOLE,), desired_input_layouts=(_PART,), use_local_output=True
    )
    styles["model.norm"] = SequenceParallel(use_local_output=True)
    parallelize_module(model, mesh, styles)
    return None


def _head() -> Any:
    return ColwiseParallel(input_layouts=_PART, output_layouts=_WHOLE)


def _add_layer(styles: dict[str, Any], name: str, layer: nn.Module) -> None:
    """Adds what a layer's own members do with the parts of the sequence."""
    for child, module in layer.named_children():
        path = f"{name}.{child}"
        if not any(True for _ in module.children()):
            styles[path] = SequenceParallel(use_local_output=True)
        elif "attn" in child or "attention" in child:
            styles[path] = PrepareModuleInput(
                input_kwarg_layouts={"hidden_states": _PART},
                desired_input_kwarg_layouts={"hidden_states": _WHOLE},
            )
        else:
            styles[path] = PrepareModuleInput(
                input_layouts=(_PART,), desired_input_layouts=(_WHOLE,)
            )
