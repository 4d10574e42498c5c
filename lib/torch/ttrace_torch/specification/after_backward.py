"""What follows the backward: how main gradients follow from raw ones, and tied parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ttrace_torch.base.names import GRADIENT_FACTOR, ROOT, ModelNames
from ttrace_torch.specification.graph import (
    SAME_ELEMENTS,
    Graph,
    Value,
    attribute,
    constant_number,
    is_number,
)
from ttrace_torch.specification.marks import Marks

# The largest relative difference between factors that are one: they are computed in fp32.
_SAME_FACTOR = 1e-6


def tied_names(names: ModelNames) -> list[list[str]]:
    """Lists of the names of each parameter that several modules hold."""
    found = []
    for owners in names.owners.values():
        if len(owners) > 1:
            all_names = [local if owner == ROOT else f"{owner}.{local}" for owner, local in owners]
            found.append(list(dict.fromkeys(all_names)))
    return [group for group in found if len(group) > 1]


def after_backward(
    names: ModelNames, main_grad: Mapping[str, Any] | None, clip_norm: float | None = None
) -> dict[str, Any]:
    """The specification's member `after_backward`, without what is not known."""
    found: dict[str, Any] = {}
    if main_grad is not None:
        found["main_grad"] = dict(main_grad)
    tied = tied_names(names)
    if tied:
        found["tied"] = tied
    if clip_norm is not None:
        found["clip_norm"] = clip_norm
    return found


class Combination:
    """How a run made its main gradients, read off its operations."""

    def __init__(self, graph: Graph, marks: Marks) -> None:
        self._graph = graph
        self.main_grad: dict[str, Any] | None = None
        self.clipped = False
        raw = {
            name: [value for values in of_name.values() for value in values]
            for name, of_name in marks.raw_grads.items()
        }
        self._raw = {value.id for values in raw.values() for value in values}
        # Number of a value -> whether it depends on raw gradients.
        self._reaching: dict[int, bool] = {}
        found = [
            self._of(value, raw[name]) for name, value in marks.main_grads.items() if name in raw
        ]
        if not found or any(one is None for one in found):
            return
        # The factors of recorded tensors include their scales.
        scales = marks.scales
        scale = scales.get("main_grad", 1.0) / scales.get("param_grad", 1.0)
        given = marks.gradient_factor
        if any(one is not None and one[2] for one in found):
            # A number that depends on data is a factor: only the script can say which.
            if given is None:
                return
        elif given:
            scale /= given
        factors = [scale * factor for one in found if one is not None for factor in one[0]]
        counts = {len(of_name) for of_name in marks.raw_grads.values()}
        first = factors[0]
        if len(counts) > 1 or any(abs(f - first) > _SAME_FACTOR * abs(first) for f in factors):
            return
        self.clipped = all(one is not None and one[1] for one in found)
        count = counts.pop()
        if count > 1 and abs(first * count - 1) < _SAME_FACTOR:
            self.main_grad = {"combine": "mean", "factor": 1.0}
        else:
            self.main_grad = {"combine": "sum", "factor": first}
        if given:
            self.main_grad["given"] = GRADIENT_FACTOR

    def _of(self, value: Value, raw: Sequence[Value]) -> tuple[list[float], bool, bool] | None:
        """Returns (1) the factor of each raw gradient in a main gradient, (2) whether the sum was
        scaled by a number that depends on gradients, as in clipping, (3) whether by one that
        depends on other data, such as a number of tokens. None if it is no such sum."""
        # Equal gradients of two micro-batches are one value, for example those of a bias before a
        # mean.
        times = Counter(one.id for one in raw)
        terms = dict.fromkeys(times, 0.0)
        clipped, by_data = False, False
        stack = [(value.id, 1.0)]
        while stack:
            number, factor = stack.pop()
            if number in terms:
                terms[number] += factor
                continue
            node = self._graph.nodes[number]
            if node.primitive in SAME_ELEMENTS:
                stack.append((node.arguments[0], factor))
            elif node.primitive in ("add", "subtract"):
                sign = -1.0 if node.primitive == "subtract" else 1.0
                stack.append((node.arguments[0], factor))
                stack.append((node.arguments[1], sign * factor))
            elif node.primitive in ("multiply", "divide"):
                one, two = node.arguments
                if node.primitive == "multiply" and is_number(self._graph, one):
                    one, two = two, one
                by = constant_number(self._graph, two)
                if by is None and is_number(self._graph, two):
                    by = 1.0
                    if self._depends_on_gradients(two):
                        clipped = True
                    else:
                        by_data = True
                if not by:
                    return None
                stack.append((one, factor * by if node.primitive == "multiply" else factor / by))
            elif not self._is_zero(number):
                return None
        return [terms[one.id] / times[one.id] for one in raw], clipped, by_data

    def _depends_on_gradients(self, number: int) -> bool:
        """Whether a value is computed from the raw gradient of a parameter."""
        if number not in self._reaching:
            seen: set[int] = set()
            stack = [number]
            while stack and not self._raw & seen:
                one = stack.pop()
                if one not in seen:
                    seen.add(one)
                    stack.extend(self._graph.nodes[one].arguments)
            self._reaching[number] = bool(self._raw & seen)
        return self._reaching[number]

    def _is_zero(self, number: int) -> bool:
        node = self._graph.nodes[number]
        return node.primitive == "full" and attribute(node, "value") == 0
