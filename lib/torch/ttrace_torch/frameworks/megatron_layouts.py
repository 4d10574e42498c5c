"""Layouts of the activations of Megatron's modules, by class.

Hidden states are [sequence, batch, hidden]: zigzag over cp, sharded over tp under sequence
parallelism. Between a column-parallel and a row-parallel layer, features or heads are sharded over
tp instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Callable

import torch
from torch import nn

from ttrace_torch.base.names import ModelNames, matching
from ttrace_torch.errors import TraceError
from ttrace_torch.frameworks.megatron_api import TransformerConfig
from ttrace_torch.layout.layouts import ModuleLayout, Rule
from ttrace_torch.layout.placements import Only, Placement, Placements, Shard, Strided, Zigzag

Table = dict[str, Placement]


def module_layouts(
    names: ModelNames, config: TransformerConfig, sizes: Mapping[str, int], described: Sequence[str]
) -> dict[str, ModuleLayout]:
    """Canonical name -> layout, for every module.

    described: patterns of the user's layouts.
    Throws TraceError for a module of an unknown class that no pattern matches, if several ranks
    share a model's activations.
    """
    rules = _Rules(config, sizes)
    found = {}
    for name, module in names.modules.items():
        layout = rules.of(name, module)
        if layout is None:
            shared = sizes["tp"] > 1 or sizes["cp"] > 1
            if shared and not any(matching(pattern, [name]) for pattern in described):
                raise TraceError(
                    f"{name}: how the activations of a {type(module).__name__} lie over tensor- "
                    f'and context-parallel ranks is not known; say Layout("{name}", input=..., '
                    "output=...), with {} for what is replicated"
                )
            layout = ModuleLayout()
        layout.follows_parameters = False
        found[name] = layout
    return found


class _Rules:
    """Class name, or last component of a module's name -> layout, without axes of one rank."""

    def __init__(self, config: TransformerConfig, sizes: Mapping[str, int]) -> None:
        self._config = config
        self._sizes = sizes
        self._sequence_parallel = bool(config.sequence_parallel)
        # [sequence, batch, hidden], and [batch, sequence, ...] before the embedding.
        self._hidden = self._on(cp=Zigzag(0), tp=Shard(0) if self._sequence_parallel else None)
        self._tokens = self._on(cp=Zigzag(1))
        self._by_class: dict[str, Callable[[str, nn.Module], ModuleLayout]] = {
            "VocabParallelEmbedding": self._word_embedding,
            "Embedding": lambda *_: ModuleLayout(self._tokens, self._tokens),
            "LanguageModelEmbedding": self._embedding,
            "RotaryEmbedding": lambda *_: ModuleLayout({}, self._on(cp=Zigzag(0))),
            "ColumnParallelLinear": self._column,
            "LayerNormColumnParallelLinear": self._column,
            "RowParallelLinear": self._row,
            "SelfAttention": self._layer,
            "MLASelfAttention": self._layer,
            "DotProductAttention": self._core_attention,
            "FusedScaleMaskSoftmax": self._scores,
            "MLP": self._layer,
            "SharedExpertMLP": self._layer,
            "MoELayer": self._layer,
            "TopKRouter": self._router,
            "TransformerLayer": self._layer,
            "MoETransformerLayer": self._layer,
            "TransformerBlock": self._block,
            "GPTModel": self._model,
            "MultiTokenPredictionLayer": self._layer_ahead,
            "IdentityOp": self._layer,
            "IdentityFuncOp": lambda *_: ModuleLayout(),
        }

    def of(self, name: str, module: nn.Module) -> ModuleLayout | None:
        """The layout of module `name`; None for an unknown class."""
        local = name.rpartition(".")[2]
        # The norms of latent attention take the down-projected tensor, which belongs to no head.
        latent = getattr(self._config, "multi_latent_attention", False)
        if local in ("q_layernorm", "k_layernorm") and not latent:
            heads = self._on(cp=Zigzag(0), tp=Shard(2))
            return ModuleLayout(heads, heads)
        for base in type(module).__mro__:
            # Transformer Engine's versions of Megatron's layers take and return the same tensors.
            rule = self._by_class.get(base.__name__.removeprefix("TE"))
            if rule is not None:
                return rule(name, module)
        if local.endswith(("norm", "embedding_dropout")):
            return ModuleLayout(self._hidden, self._hidden)
        if local == "attention_dropout":
            return self._scores(name, module)
        if isinstance(module, (nn.ModuleList, nn.ModuleDict, nn.Sequential)):
            return ModuleLayout()
        return None

    def _on(self, **placements: Placement | None) -> Table:
        return {a: p for a, p in placements.items() if p is not None and self._sizes[a] > 1}

    def _word_embedding(self, name: str, module: nn.Module) -> ModuleLayout:
        if not getattr(module, "reduce_scatter_embeddings", False):
            return ModuleLayout(self._tokens, self._tokens)
        # The embedding scatters its output, and transposes it for that; the whole model's output is
        # not transposed.
        output = self._on(cp=Zigzag(1), tp=Shard(1))
        return ModuleLayout(self._tokens, output, output_swap=(0, 1))

    def _embedding(self, name: str, module: nn.Module) -> ModuleLayout:
        scattered = getattr(module, "scatter_to_sequence_parallel", True)
        return ModuleLayout(self._tokens, self._hidden if scattered else self._on(cp=Zigzag(0)))

    def _column(self, name: str, module: nn.Module) -> ModuleLayout:
        gated = self._config.gated_linear_unit and name.endswith("linear_fc1")
        gathered = getattr(module, "gather_output", False)
        cut = None if gathered else Strided(-1, 2) if gated else Shard(-1)
        bias = None if gathered else Strided(0, 2) if gated else Shard(0)
        # A head with the embedding's weight gets it as an argument.
        return ModuleLayout(
            [self._hidden, self._on(tp=Shard(0))],
            [self._on(cp=Zigzag(0), tp=cut), self._on(tp=bias)],
        )

    def _row(self, name: str, module: nn.Module) -> ModuleLayout:
        return ModuleLayout([self._on(cp=Zigzag(0), tp=Shard(-1))], [self._hidden])

    def _layer(self, name: str, module: nn.Module) -> ModuleLayout:
        return ModuleLayout(self._states_first, [self._hidden])

    def _states_first(self, index: int, tensor: torch.Tensor) -> Placements:
        """Hidden states come first, then masks and rotary embeddings."""
        return self._hidden if index == 0 else self._beside(tensor)

    def _beside(self, tensor: torch.Tensor) -> Table:
        """A mask, [batch, 1, queries, keys], or a rotary embedding, [sequence, 1, 1, features]."""
        if tensor.dim() != 4:
            return {}
        return self._on(cp=Zigzag(2) if tensor.dtype == torch.bool else Zigzag(0))

    def _core_attention(self, name: str, module: nn.Module) -> ModuleLayout:
        groups = self._config.num_query_groups
        if groups % self._sizes["tp"]:
            raise TraceError(
                f"{name}: {groups} query groups on {self._sizes['tp']} tensor-parallel ranks; "
                "several ranks share a group, which this adapter cannot describe. Trace with "
                f"{groups} tensor-parallel ranks or fewer"
            )
        heads = self._on(cp=Zigzag(0), tp=Shard(2))
        return ModuleLayout(lambda i, tensor: heads if i < 3 else self._beside(tensor), [heads])

    def _scores(self, name: str, module: nn.Module) -> ModuleLayout:
        scores = self._on(cp=Zigzag(2), tp=Shard(1))
        return ModuleLayout(lambda i, tensor: self._beside(tensor) if i else scores, [scores])

    def _router(self, name: str, module: nn.Module) -> ModuleLayout:
        # [sequence · batch, experts], the sequence slowest.
        return ModuleLayout([self._hidden], self._hidden)

    def _block(self, name: str, module: nn.Module) -> ModuleLayout:
        return self._of_container(self._states_first, lambda *_: self._hidden)

    def _model(self, name: str, module: nn.Module) -> ModuleLayout:
        logits = self._on(cp=Zigzag(1), tp=Shard(-1) if module.parallel_output else None)
        return self._of_container(
            # Token ids, positions and labels, and a mask.
            lambda _, tensor: self._tokens if tensor.dim() == 2 else self._beside(tensor),
            # The losses of tokens; logits without labels.
            lambda _, tensor: logits if tensor.dim() == 3 else self._tokens,
        )

    def _layer_ahead(self, name: str, module: nn.Module) -> ModuleLayout:
        return ModuleLayout(self._among_tokens, self._among_tokens)

    def _among_tokens(self, _: int, tensor: torch.Tensor) -> Placements:
        """Token ids, positions and their padding, hidden states, and what comes beside them."""
        if tensor.dim() == 2:
            return self._tokens
        return self._hidden if tensor.dim() == 3 else self._beside(tensor)

    def _of_container(self, inputs: Rule, outputs: Rule) -> ModuleLayout:
        """Only the first stage has the whole model's input, only the last one its output."""
        first, last = self._on(pp=Only(0)), self._on(pp=Only(self._sizes["pp"] - 1))
        return ModuleLayout(
            lambda index, tensor: {**inputs(index, tensor), **first},
            lambda index, tensor: {**outputs(index, tensor), **last},
        )
