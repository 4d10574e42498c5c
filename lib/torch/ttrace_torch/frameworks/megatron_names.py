"""Canonical names of Megatron's models, with global numbers of layers and experts.

A stage numbers its modules from 0; `layer_number` of a layer is global and counts from 1. The
chunks of a model have one set of names.
"""

from __future__ import annotations

from typing import Any, cast

from torch import nn

from ttrace_torch.base.names import ROOT, WRAPPERS, Naming
from ttrace_torch.errors import TraceError
from ttrace_torch.frameworks.megatron_api import Model, ParallelState

_EMBEDDING = "embedding"
TIED = f"{_EMBEDDING}.word_embeddings.weight"
_HEAD = "output_layer.weight"

# Modules that every stage has, in addition to its layers.
EVERYWHERE = frozenset({ROOT, "decoder", "encoder", "rotary_pos_emb"})


def parts_of(model: Any) -> list[nn.Module]:
    """The chunks of a model; a module is its own only chunk."""
    parts = list(model) if isinstance(model, (list, tuple)) else [model]
    if not parts or not all(isinstance(part, nn.Module) for part in parts):
        kinds = ", ".join(type(part).__name__ for part in parts) or "nothing"
        raise TraceError(f"model: give a module or a list of modules, not {kinds}")
    return parts


def inner(part: nn.Module) -> Model:
    """The chunk without its wrappers."""
    while isinstance(getattr(part, "module", None), nn.Module) and not hasattr(part, "decoder"):
        part = cast(nn.Module, part.module)
    return cast(Model, part)


def holds_copy_of_embedding(part: nn.Module) -> bool:
    """Whether the chunk's head is a copy of an embedding on another stage."""
    model = inner(part)
    tied = getattr(model, "share_embeddings_and_output_weights", False)
    return bool(tied) and not getattr(model, "pre_process", True)


def _puts_in_a_row(module: nn.Module) -> bool:
    """Whether its output is only those of its layers, one after the other.

    Under context parallelism each of them has a zigzag order of its own, which no placement says.
    """
    return any(base.__name__ == "MultiTokenPredictionBlock" for base in type(module).__mro__)


class MegatronNaming(Naming):
    """Names of a model in Megatron's chunks.

    A rank has the first or the last chunk, and with virtual stages others between them. A module
    that every chunk has is recorded for the first and the last chunk, which have the whole model's
    input or output.
    """

    def __init__(self, state: ParallelState) -> None:
        self._state = state

    def parts(self, model: Any) -> list[nn.Module]:
        return parts_of(model)

    def of_modules(self, part: nn.Module) -> dict[str, str | None]:
        chunk = inner(part)
        outer = getattr(chunk, "pre_process", True) or getattr(chunk, "post_process", True)
        modules = dict(part.named_modules())
        found: dict[str, str | None] = {}
        for path, name in self._names(part).items():
            # The tokens of an expert depend on the routing, so its activations have no layout.
            left_out = ".experts." in f".{name}." or _puts_in_a_row(modules[path])
            shared = name in EVERYWHERE or isinstance(modules[path], nn.ModuleList)
            found[path] = None if left_out or (shared and not outer) else name
        return found

    def earlier_runs(self, part: nn.Module) -> dict[str, int]:
        # The stage that predicts further tokens has a copy of the embedding, which the first stage
        # has run by then.
        if getattr(inner(part), "pre_process", True):
            return {}
        names = self.of_modules(part).values()
        return {name: 1 for name in names if name and f"{name}.".startswith(f"{_EMBEDDING}.")}

    def of_parameters(self, part: nn.Module) -> dict[str, str]:
        names = self._names(part)
        copied = holds_copy_of_embedding(part)
        found = {}
        for path, _ in part.named_parameters():
            owner, _, local = path.rpartition(".")
            found[path] = local if names[owner] == ROOT else f"{names[owner]}.{local}"
        heads = [path for path, name in found.items() if copied and name == _HEAD]
        for path in heads:
            if TIED in found.values():
                # The embedding's copy is the head's weight, and the head's own is never read.
                del found[path]
            else:
                found[path] = TIED
        return found

    def _names(self, part: nn.Module) -> dict[str, str]:
        """Path -> canonical name of every module."""
        names: dict[str, str] = {}
        modules = dict(part.named_modules())
        for path, module in modules.items():
            owner, _, local = path.rpartition(".")
            if not path or local in WRAPPERS:
                names[path] = names[owner] if path else ROOT
                continue
            local = self._number(local, module, owner, modules)
            names[path] = local if names[owner] == ROOT else f"{names[owner]}.{local}"
        return names

    def _number(
        self, local: str, module: nn.Module, owner: str, modules: dict[str, nn.Module]
    ) -> str:
        """`local`, or its number in the whole model."""
        if not local.isdigit():
            return local
        kind = owner.rpartition(".")[2]
        if kind == "layers" and hasattr(module, "layer_number"):
            return str(int(getattr(module, "layer_number")) - 1)  # noqa: B009
        if kind == "local_experts":
            share = len(list(modules[owner].children()))
            return str(self._state.get_expert_model_parallel_rank() * share + int(local))
        return local
