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
        found = {
            name: self._of(value, raw[name])
            for name, value in marks.main_grads.items()
            if name in raw and value is not None
        }
        sums = {name: one for name, one in found.items() if one is not None}
        # Where a generator and its critic take turns, gradients that one leaves to the other are
        # dropped. In any other step all gradients have one factor.
        counts = {len(of_name) for of_name in marks.raw_grads.values()}
        several = marks.several_phases or len(counts) > 1
        if not sums or (len(sums) < len(found) and not several):
            return
        # The factors of recorded tensors include their scales.
        scales = marks.scales
        scale = scales.get("main_grad", 1.0) / scales.get("param_grad", 1.0)
        given = marks.gradient_factor
        if any(one[2] for one in sums.values()):
            # A number that depends on data is a factor: only the script can say which.
            if given is None:
                return
        elif given:
            scale /= given
        numbers = {name: _by_microbatch(sums[name][0], marks.raw_grads[name]) for name in sums}
        factors = [f for of_name in numbers.values() for fs in of_name.values() for f in fs if f]
        if not factors:
            return
        first = Counter(factors).most_common(1)[0][0] if several else factors[0]
        partial = {}
        for name in marks.raw_grads:
            if name not in found and (name in marks.main_grads or not several):
                continue
            taken = _taken(numbers.get(name, {}), first)
            if taken != set(marks.raw_grads[name]):
                partial[name] = sorted(number or 0 for number in taken)
        if partial and not several:
            return
        self.clipped = all(one[1] for one in sums.values())
        first *= scale
        count = max(counts)
        if not several and count > 1 and abs(first * count - 1) < _SAME_FACTOR:
            self.main_grad = {"combine": "mean", "factor": 1.0}
        else:
            self.main_grad = {"combine": "sum", "factor": first}
        if given:
            self.main_grad["given"] = GRADIENT_FACTOR
        if partial:
            self.main_grad["taken"] = partial

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
                if node.primitive == "multiply" and self._is_factor(one, two):
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

    def _is_factor(self, one: int, two: int) -> bool:
        """Whether `one` is the number in a product of a gradient and a number. A gradient may have
        one element, too."""
        if not is_number(self._graph, one):
            return False
        return not (is_number(self._graph, two) and self._depends_on_gradients(one))

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


def _by_microbatch(
    factors: Sequence[float], raw: Mapping[int | None, Sequence[Value]]
) -> dict[int | None, list[float]]:
    """Micro-batch -> the factors of its raw gradients, of which `factors` has those of all."""
    every = iter(factors)
    return {number: [next(every) for _ in values] for number, values in raw.items()}


def _taken(factors: Mapping[int | None, Sequence[float]], factor: float) -> set[int | None]:
    """The micro-batches whose raw gradients have that factor in a sum; none if it takes others with
    another factor, or a part of what a micro-batch has."""
    taken = set()
    for number, of_number in factors.items():
        if all(abs(f - factor) <= _SAME_FACTOR * abs(factor) for f in of_number):
            taken.add(number)
        elif any(of_number):
            return set()
    return taken
