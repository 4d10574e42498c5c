"""The tables of translations, and what a translation is given.

A translation is a function with the arguments of the operation's schema (`self` is called `x`),
tensors as values of the graph. Unless it names all of them, it takes the rest as `**_`. It returns
a value for each result, None for one that no primitive expresses, and raises `Inexpressible` where
that is so for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Callable, TypeVar

from ttrace_torch.specification.expressions import Expressions
from ttrace_torch.specification.graph import Value
from ttrace_torch.specification.strides import Step

TABLE: dict[str, Callable[..., Any]] = {}
# The results of a view are the same memory: a translation returns the steps to each.
VIEWS: dict[str, Callable[..., Sequence[tuple[Step, ...]]]] = {}


@dataclass(frozen=True)
class Call:
    """One call of an operation.

    dtypes, shapes: of its results.
    overload: of the operation, such as "Tensor".
    """

    make: Expressions
    dtypes: Sequence[str]
    shapes: Sequence[tuple[int, ...]]
    overload: str = ""

    @property
    def dtype(self) -> str:
        """The dtype of the first result."""
        return self.dtypes[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first result."""
        return self.shapes[0]

    @property
    def wide(self) -> str:
        """The type in which kernels compute what they round to the type of the result once."""
        return self.dtype if self.dtype == "float64" else "float32"

    def value(self, x: Value | float) -> Value:
        """An argument as a value in the dtype of the result."""
        return self.make.of(x, self.dtype)

    def filling(self, x: Value | float) -> Value:
        """The value that elements of the result are filled with."""
        return self.make.limit(x, self.dtype)


def asked(values: Sequence[Value | None], mask: Sequence[bool]) -> list[Value | None]:
    """The results that a backward was asked for: the others are no tensors."""
    return [value for value, wanted in zip(values, mask) if wanted]


Translation = TypeVar("Translation", bound=Callable[..., Any])


def operation(*names: str) -> Callable[[Translation], Translation]:
    """Registers a translation under the names of aten operations."""

    def register(translation: Translation) -> Translation:
        for name in names:
            TABLE[name] = translation
        return translation

    return register


def view(*names: str) -> Callable[[Translation], Translation]:
    """Registers the translation of a view, also of its variant that copies."""

    def register(translation: Translation) -> Translation:
        for name in names:
            VIEWS[name] = VIEWS[f"{name}_copy"] = translation
        return translation

    return register
