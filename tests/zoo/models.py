"""A miniature of one architecture, and a batch for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers as T
from transformers.models.auto import modeling_auto

from zoo.settings import IMAGE, INPUTS, LEFT_OUT, OWN, SETTINGS, TOKENS, UNSET

TASKS = {
    "clm": ("AutoModelForCausalLM", "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES"),
    "s2s": ("AutoModelForSeq2SeqLM", "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES"),
    "mlm": ("AutoModelForMaskedLM", "MODEL_FOR_MASKED_LM_MAPPING_NAMES"),
    "img": ("AutoModelForImageClassification", "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES"),
}
_BY_LAYER = ("layer_types", "mlp_layer_types")
# What labels become inputs of a decoder with, where a configuration has no such member.
_TOKENS = {"decoder_start_token_id": 1, "pad_token_id": 0}
MOST_PARAMETERS = 30e6


def architectures() -> list[tuple[str, str]]:
    """Every (architecture, task) that transformers registers."""
    return [
        (kind, task) for task, (_, table) in TASKS.items() for kind in getattr(modeling_auto, table)
    ]


def batch(
    kind: str, task: str, model: torch.nn.Module, dtype: torch.dtype
) -> dict[str, torch.Tensor]:
    """Inputs and labels; the same for every call."""
    random = torch.Generator().manual_seed(1)
    given = _given(task, model, dtype, random)
    for name, wanted in INPUTS.get(f"{kind}/{task}", {}).items():
        if wanted is None:
            del given[name]
        else:
            given[name] = _VALUES[wanted[0]](wanted[1], random)
            if given[name].is_floating_point():
                given[name] = given[name].to(dtype)
    return given


_VALUES: dict[str, Callable[[tuple[int, ...], torch.Generator], torch.Tensor]] = {
    "normal": lambda shape, random: torch.randn(*shape, generator=random),
    "tokens": lambda shape, random: torch.randint(3, 120, shape, generator=random),
    "ones": lambda shape, _: torch.ones(shape, dtype=torch.int64),
    "fours": lambda shape, _: torch.full(shape, 4),
}


def _given(
    task: str, model: torch.nn.Module, dtype: torch.dtype, random: torch.Generator
) -> dict[str, torch.Tensor]:
    if task == "img":
        size = getattr(model.config, "image_size", None) or IMAGE
        sides = [size, size] if isinstance(size, int) else list(size)
        pixels = torch.randn(2, 3, *sides, generator=random).to(dtype)
        return {"pixel_values": pixels, "labels": torch.tensor([0, 1])}
    ids = torch.randint(3, 120, (2, TOKENS), generator=random)
    return {"input_ids": ids, "labels": ids}


def build(kind: str, task: str, dtype: torch.dtype = torch.float32) -> torch.nn.Module:
    """The model with its initial values, in training mode; raises what the last try raised."""
    failure: Exception = ValueError("nothing tried")
    for left_out in LEFT_OUT:
        try:
            model = _built(kind, task, left_out)
            model.to(dtype)
            inputs = batch(kind, task, model, dtype)
            model(**inputs).loss.backward()
            model.zero_grad()
            return model
        except Exception as error:  # noqa: BLE001
            failure = error
    raise failure


def _built(kind: str, task: str, left_out: tuple[str, ...]) -> torch.nn.Module:
    own = OWN.get(kind, {})
    config = T.AutoConfig.for_model(kind)
    wanted = _set(_small(config, left_out, own))
    config = T.AutoConfig.for_model(kind, **wanted)
    config.use_cache = False
    config.architectures = config.architectures or []
    for name, token in _TOKENS.items():
        if getattr(config, name, None) is None:
            setattr(config, name, token)
    _shorten(config)
    torch.manual_seed(0)
    with torch.device("meta"):
        count = sum(p.numel() for p in getattr(T, TASKS[task][0]).from_config(config).parameters())
    if count > MOST_PARAMETERS:
        raise ValueError(f"{count} parameters are too many")
    torch.manual_seed(0)
    return getattr(T, TASKS[task][0]).from_config(config).train()


def _small(config: Any, left_out: tuple[str, ...], own: dict[str, Any]) -> dict[str, Any]:
    """Members for a configuration like this one."""
    members = {
        name: value
        for name, value in SETTINGS.items()
        if name not in left_out and _is_plain(config, name)
    }
    if "num_hidden_layers" in members:
        for name in _BY_LAYER:
            listed = getattr(config, name, None)
            if isinstance(listed, list):
                members[name] = _two_kinds(listed)
    for name, nested in vars(config).items():
        if isinstance(nested, T.PretrainedConfig):
            mine = own.get(name, {})
            members[name] = {**nested.to_dict(), **_small(nested, left_out, {}), **mine}
            members[name] = _set(members[name])
    return {**{n: v for n, v in own.items() if n not in members}, **members, **_of_itself(own)}


def _of_itself(own: dict[str, Any]) -> dict[str, Any]:
    """What is said of the configuration, and not of those within it."""
    return {name: value for name, value in own.items() if not isinstance(value, dict)}


def _set(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not UNSET}


def _is_plain(config: Any, name: str) -> bool:
    """Whether a configuration has a member of that name, one for all layers."""
    try:
        return hasattr(config, name) and not isinstance(getattr(config, name), (list, dict, tuple))
    except Exception:  # noqa: BLE001
        return False


def _two_kinds(listed: list[str]) -> list[str]:
    """Of what is said of each layer that of two layers, of two kinds where there are several."""
    kinds = list(dict.fromkeys(listed))
    return (kinds + kinds)[: SETTINGS["num_hidden_layers"]]


def _shorten(config: Any) -> None:
    """Lists with a member for each layer get the length that they need."""
    layers = getattr(config, "num_hidden_layers", None)
    for name in _BY_LAYER:
        listed = getattr(config, name, None)
        if listed and isinstance(layers, int) and len(listed) > layers:
            setattr(config, name, listed[:layers])
    for nested in vars(config).values():
        if isinstance(nested, T.PretrainedConfig):
            _shorten(nested)
