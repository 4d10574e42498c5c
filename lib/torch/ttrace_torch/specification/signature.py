"""What is known about an operation before it runs: its schema, and its translation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ttrace_torch.specification import operations  # noqa: F401
from ttrace_torch.specification.graph import Value
from ttrace_torch.specification.nested import values_in
from ttrace_torch.specification.operations.table import TABLE, VIEWS

# Collectives that hand on their argument where one process is the whole group.
_ALONE = frozenset(
    {
        "_wrap_tensor_autograd",
        "all_gather_into_tensor",
        "all_gather_into_tensor_coalesced",
        "all_gather_into_tensor_out",
        "all_reduce",
        "all_reduce_coalesced",
        "all_to_all_single",
        "broadcast",
        "reduce_scatter_tensor",
        "reduce_scatter_tensor_coalesced",
        "reduce_scatter_tensor_out",
        "wait_tensor",
    }
)
# Arguments that do not matter for the formula: the result's dtype is known, and its place and
# layout in memory change nothing.
_WITHOUT_MEANING = frozenset(
    {"dtype", "layout", "device", "pin_memory", "memory_format", "non_blocking", "generator"}
)
_WITHOUT_TENSORS = frozenset(
    {"aten::_local_scalar_dense", "aten::is_same_size", "prim::device", "aten::_assert_async"}
)
# They return a size that follows from elements, or a result of such a size. Models read the sizes
# by tolist(), which no recorder sees.
_MAKING_SIZES = frozenset(
    {
        "aten::_unique2",
        "aten::bincount",
        "aten::histc",
        "aten::repeat_interleave",
        "aten::unique_consecutive",
        "aten::unique_dim",
    }
)
# The size of these results also depends on data, but their formula says how many elements they
# have.
_CHOOSING = frozenset({"aten::masked_select", "aten::nonzero"})
_INDEXING = "aten::index"
_MASKS = (torch.bool, torch.uint8)
_DRAWING_ALIKE = frozenset({"aten::rand_like", "aten::randint_like", "aten::randn_like"})
# They write no element, and let a tensor show its memory in another shape.
_SHOWING_OTHERWISE = frozenset(
    f"aten::{name}_" for name in ("as_strided", "transpose", "t", "squeeze", "unsqueeze")
)


class Signature:
    """What is known about an operation before it runs."""

    def __init__(self, func: Any) -> None:
        schema = func._schema
        self.name: str = schema.name
        self.overload: str = schema.overload_name
        self.makes_sizes = self.name in _MAKING_SIZES
        self._chooses = self.name in _CHOOSING
        self.shows_otherwise = self.name in _SHOWING_OTHERWISE
        space, _, name = self.name.partition("::")
        self.operation = f"{space}.{name}"
        self._arguments = [
            (
                _argument_name(a.name),
                a.kwarg_only,
                a.default_value if a.has_default_value() else None,
            )
            for a in schema.arguments
        ]
        self._own_names = {_argument_name(a.name): a.name for a in schema.arguments}
        self.names = [name for name, _, _ in self._arguments]
        self.written = [
            _argument_name(a.name)
            for a in schema.arguments
            if a.alias_info is not None and a.alias_info.is_write
        ]
        mutates = bool(self.written)
        base = name[:-1] if mutates and name.endswith("_") and not name.endswith("__") else name
        each = base.startswith("_foreach_") and space == "aten"
        self.for_each = TABLE.get(base[len("_foreach_") :]) if each else None
        self.translation = TABLE.get(base if space == "aten" else self.name)
        self.view = VIEWS.get(base) if space == "aten" and not mutates else None
        self.alone = space == "_c10d_functional" and base in _ALONE
        # The name of an operation of c10d, whose schema does not say what it writes.
        self.collective = name if space == "c10d" else None
        # The argument whose bits the result has, if no dtype changes.
        self.copied = {"clone": "x", "_to_copy": "x", "lift_fresh_copy": "x", "copy": "src"}.get(
            base
        )
        # An `out` argument is written, and no part of the formula.
        self.unused = _WITHOUT_MEANING | {
            _argument_name(a.name)
            for a in schema.arguments
            if a.kwarg_only and a.alias_info is not None and a.alias_info.is_write
        }
        self.without_tensors = self.name in _WITHOUT_TENSORS or (
            self.collective is None
            and not mutates
            and not any("Tensor" in str(r.type) for r in schema.returns)
        )
        self.decomposition = None
        composed = self.translation is None and self.view is None and not mutates
        # A decomposition of random numbers would draw others.
        if composed and space == "aten" and torch.Tag.nondeterministic_seeded not in func.tags:
            from torch._decomp import decomposition_table

            self.decomposition = decomposition_table.get(func)

    def chooses(self, given: Mapping[str, Any]) -> bool:
        """Whether the size of its result follows from elements, as that of x[mask] does."""
        if self.name != _INDEXING:
            return self._chooses
        return any(x is not None and x.dtype in _MASKS for x in given["indices"])

    def read(self, values: Mapping[str, Any]) -> list[Value]:
        """The values that its result follows from: none where numbers are drawn in the shape of a
        tensor, whose elements do not matter."""
        return [] if self.name in _DRAWING_ALIKE else values_in(values)

    def bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by name, those not given with their default."""
        found = {}
        for turn, (name, _, default) in enumerate(self._arguments):
            if turn < len(args):
                found[name] = args[turn]
            else:
                found[name] = kwargs.get(self._own_names[name], default)
        return found

    def split(self, given: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments from those by name."""
        positional = [given[name] for name, keyword, _ in self._arguments if not keyword]
        named = {
            self._own_names[name]: given[name] for name, keyword, _ in self._arguments if keyword
        }
        return positional, named


def _argument_name(name: str) -> str:
    return "x" if name in ("self", "from") else name
