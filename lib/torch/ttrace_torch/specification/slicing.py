"""Cuts the graph of a step at the tensors that a trace records.

Each recorded tensor is an expression over tensors recorded before it. Expressions of equal form
share a pattern, so that layers differ in the inputs only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ttrace_torch.base import dtypes
from ttrace_torch.base.names import ROOT
from ttrace_torch.specification.expressions import Expressions
from ttrace_torch.specification.graph import (
    LEAF,
    MISTAKE,
    OPAQUE,
    Graph,
    Node,
    Value,
    attribute,
    constant_number,
    is_from_outside,
)
from ttrace_torch.specification.marks import SAME, Factor, Mark, Place, is_of_step
from ttrace_torch.specification.open_orders import (
    OPEN_ORDER,
    choices_first,
    depends_on_open_order,
)

# Stands for a source of a tensor that neither the model nor the trace has.
OUTSIDE = "a tensor from outside"
# Sizes that differ between micro-batches: numbers in the operations are then those of one of them.
VARYING = "sizes that depend on data"
# The types that a trace and a specification have; complex numbers are none.
_KNOWN_DTYPES = frozenset(dtype.name for dtype in dtypes.DTYPES.values())
# Kinds that may come from the data of the run.
_DATA = frozenset({"input", "scalar", "index"})
# Kinds that are linear in the factor of a loss.
_RAW = frozenset({"grad_output", "param_grad"})
_STATE = frozenset({"param", "buffer"})
# What the trace has of a step itself, where its updates are followed.
_OF_STEP = frozenset({"main_grad", "grad_norm", "optimizer_state", "param_after_step"})
_GIVEN = _DATA | _STATE | _OF_STEP

PatternNode = tuple[str, tuple[int, ...], tuple[tuple[str, Any], ...], str, tuple[int, ...]]
Pattern = tuple[int, tuple[PatternNode, ...]]


@dataclass
class Tensor:
    """An entry of the specification's `tensors`; the numbers are those of other entries."""

    place: Place
    mark: Mark
    sources: list[int] = field(default_factory=list)
    pattern: int | None = None
    same: int | None = None
    opaque: str | None = None
    # Whether all micro-batches of a step have the given number in common.
    uniform: bool = False


@dataclass
class _Expression:
    """The expression that a tensor follows from: inputs are numbers of entries."""

    inputs: list[int]
    order: list[int]
    opaque: str | None


def _are_alike(one: Pattern, other: Pattern) -> bool:
    """Whether patterns compute the same, apart from the types of their values: a script may
    multiply by 1 in one micro-batch and by 1.0 in another."""

    def told(pattern: Pattern) -> list[tuple[Any, ...]]:
        return [(primitive, *rest, shape) for primitive, *rest, _, shape in pattern[1]]

    return told(one) == told(other)


class Slicer:
    """Makes the entries and patterns of one step."""

    def __init__(self, graph: Graph, scales: Mapping[str, float] | None = None) -> None:
        """scales: kind -> what its recorded tensors must be multiplied by."""
        self._graph = graph
        self._scales = scales or {}
        self.tensors: list[Tensor] = []
        self.patterns: dict[Pattern, int] = {}
        # Value -> number of the first entry that has it.
        self._named: dict[int, int] = {}
        # Value -> the named value that has the same elements, and the view of it that shows them.
        self._seen_through: dict[int, tuple[int, int]] = {}

    def cut(self, marks: Mapping[Place, Mark]) -> None:
        """Adds an entry for each mark, if a trace can hold it.

        Entries keep the order of the marks, but data come first: labels may be recorded after the
        loss that reads them.
        """

        state = {mark.value.id for place, mark in marks.items() if place[0] in _STATE}

        def is_computed(item: tuple[Place, Mark]) -> bool:
            place, mark = item
            if place[0] not in _DATA or mark.factor is not None or mark.value.id in state:
                return True
            return not is_from_outside(self._graph.nodes[mark.value.id])

        for place, mark in sorted(choices_first(self._graph, marks), key=is_computed):
            if mark.dtype not in _KNOWN_DTYPES:
                continue
            tensor = Tensor(place, mark)
            self._resolve(tensor)
            self._check_sizes(tensor)
            if mark.number is not None and tensor.pattern is None and tensor.same is None:
                continue  # nothing says what it is
            self._name(mark.value.id, len(self.tensors))
            self.tensors.append(tensor)
        self._leave_out_unused()

    def open(self, others: Sequence[Mapping[Place, Mark]]) -> None:
        """Makes tensors opaque that other micro-batches compute by other operations: numbers in
        these operations, such as how many tokens an expert gets, follow from one micro-batch's
        data.

        others: the marks of these micro-batches, with those of the step.
        """
        own = {number: pattern for pattern, number in self.patterns.items()}
        known = {tensor.place: tensor for tensor in self.tensors}
        for marks in others:
            other = Slicer(self._graph, self._scales)
            other.cut(marks)
            patterns = {number: pattern for pattern, number in other.patterns.items()}
            for tensor in other.tensors:
                mine = known.get(tensor.place)
                if mine is None or mine.pattern is None or tensor.pattern is None:
                    continue
                places = [
                    [s.tensors[n].place for n in t.sources]
                    for s, t in ((self, mine), (other, tensor))
                ]
                if places[0] == places[1] and not _are_alike(
                    own[mine.pattern], patterns[tensor.pattern]
                ):
                    mine.pattern, mine.opaque = None, VARYING
                    mine.sources = sorted(set(mine.sources))

    def _resolve(self, tensor: Tensor) -> None:
        if len(tensor.place) > 3:
            return  # what the trace has of a micro-batch is given to the step
        root = tensor.mark.value.id
        earlier = self._named.get(root)
        node = self._graph.nodes[root]
        if earlier is not None:
            same_bits = self.tensors[earlier].mark.token is tensor.mark.token
            if same_bits or node.primitive in (LEAF, OPAQUE):
                tensor.same = earlier
                return
        if tensor.mark.factor is not None:
            self._resolve_factor(tensor, tensor.mark.factor)
            return
        if node.primitive == LEAF:
            if tensor.place[0] not in _GIVEN:
                tensor.opaque = OUTSIDE
            return
        found = self._expression(root)
        scale = self._scales.get(tensor.place[0], 1.0)
        if tensor.place[0] in _RAW and scale != 1 and not self._follows_a_gradient(found):
            # The graph has what the run computed; recorded gradients are multiplied by the scale.
            found = self._expression(self._scaled(tensor.mark.value, scale))
        self._take(tensor, found)

    def _resolve_factor(self, tensor: Tensor, factor: Factor) -> None:
        """Gives a factor of the script its expression if it follows from recorded tensors. Else it
        is a number of the script. If all micro-batches have the same number, it becomes a constant;
        but not a number of terms, which other data change."""
        make, original = Expressions(self._graph), factor.original
        scale = self._scales.get("grad_output", 1.0) if factor.is_scaled else 1.0
        found = self._expression(original.id)
        if found.opaque is None and found.inputs:
            self._take(tensor, self._expression(self._scaled(original, scale)))
            return
        if factor.terms:
            tensor.uniform = is_of_step(factor)
            return
        numbers = [number * scale for number in factor.numbers.values()]
        if not numbers:
            number = constant_number(self._graph, original.id)
            numbers = [] if number is None else [number * scale]
        if numbers and all(abs(n - numbers[0]) <= SAME * abs(numbers[0]) for n in numbers):
            # A product with 1 gives it the rounding of a product, since a run may multiply in any
            # order.
            terms = [make.full(n, original.dtype, original.shape) for n in (1.0, numbers[0])]
            product = self._graph.add("multiply", terms, original.dtype, original.shape)
            self._take(tensor, self._expression(product.id))

    def _scaled(self, value: Value, scale: float) -> int:
        if scale == 1:
            return value.id
        return Expressions(self._graph).binary("multiply", value, scale, value.dtype).id

    def _take(self, tensor: Tensor, found: _Expression) -> None:
        """Gives a tensor its expression."""
        if found.opaque is not None:
            kind, name, *_ = tensor.place
            # The batch stays data if a part of it was recorded, as the noise in an image.
            is_batch = kind == "input" and name.split("[")[0] == ROOT
            if kind in _DATA and (is_batch or not found.inputs) and found.opaque != MISTAKE:
                return
            tensor.opaque, tensor.sources = found.opaque, found.inputs
            return
        tensor.sources = found.inputs
        tensor.pattern = self._pattern(found)

    def _follows_a_gradient(self, found: _Expression) -> bool:
        return any(self.tensors[number].place[0] in _RAW for number in found.inputs)

    def _check_sizes(self, tensor: Tensor) -> None:
        """Makes a tensor opaque if its sizes, or those of its inputs, depend on data."""
        varies = [-1 in self.tensors[number].mark.shape for number in tensor.sources]
        if tensor.pattern is not None and (-1 in tensor.mark.shape or any(varies)):
            tensor.pattern, tensor.opaque = None, VARYING
            tensor.sources = sorted(set(tensor.sources))

    def _expression(self, root: int) -> _Expression:
        """The values between `root` and named values, in an order of computation."""
        graph = self._graph
        inputs: dict[int, None] = {}
        order: list[int] = []
        done: set[int] = set()
        opaque: str | None = None
        stack: list[tuple[int, bool]] = [(root, False)]
        while stack:
            number, entered = stack.pop()
            if entered:
                order.append(number)
                continue
            number = self._at(number, root)
            if number in done:
                continue
            done.add(number)
            if number != root and number in self._named:
                inputs.setdefault(number)
                continue
            node = graph.nodes[number]
            if node.primitive == LEAF:
                opaque = opaque or OUTSIDE
                continue
            if node.primitive == OPAQUE:
                opaque = opaque or str(attribute(node, "operation"))
            elif node.dtype not in _KNOWN_DTYPES:
                opaque = opaque or f"{node.primitive} of {node.dtype}"
            stack.append((number, True))
            stack.extend((argument, False) for argument in reversed(node.arguments))
        numbers = list(inputs)
        if opaque is None and depends_on_open_order(graph, order, root):
            opaque = OPEN_ORDER
        if opaque is not None:
            return _Expression(sorted({self._named[n] for n in numbers}), order, opaque)
        self._inputs = numbers
        return _Expression([self._named[n] for n in numbers], order, None)

    def _at(self, number: int, root: int) -> int:
        """The value to read in the place of a value, in the expression of `root`.

        A value that only `root` itself shows is computed: a tensor does not follow from itself,
        even if another tensor with the same value has a name already.
        """
        if number == root or number in self._named:
            return number
        named, image = self._seen_through.get(number, (number, number))
        return number if named == root else image

    def _pattern(self, found: _Expression) -> int:
        local = {number: turn for turn, number in enumerate(self._inputs)}
        nodes: list[PatternNode] = []
        root = found.order[-1]
        for number in found.order:
            node = self._graph.nodes[number]
            arguments = tuple(local[self._at(one, root)] for one in node.arguments)
            local[number] = len(self._inputs) + len(nodes)
            nodes.append((node.primitive, arguments, node.attributes, node.dtype, node.shape))
        pattern = (len(self._inputs), tuple(nodes))
        return self.patterns.setdefault(pattern, len(self.patterns))

    def _name(self, value: int, number: int) -> None:
        """Names a value and, through views that lose nothing, the values that it was made from."""
        if value in self._named:
            return
        self._named[value] = number
        # From now on, the source of a view can be read off the named value.
        image = value
        node = self._graph.nodes[value]
        while node.primitive in ("reshape", "permute"):
            source = node.arguments[0]
            if source in self._named or source in self._seen_through:
                return
            image = self._back(node, image)
            self._seen_through[source] = value, image
            node = self._graph.nodes[source]

    def _back(self, node: Node, image: int) -> int:
        """The argument of a view, from its result."""
        graph, source = self._graph, self._graph.nodes[node.arguments[0]]
        result = graph.value(image)
        if node.primitive == "reshape":
            return graph.add("reshape", (result,), source.dtype, source.shape).id
        dims = attribute(node, "dims")
        back = tuple(sorted(range(len(dims)), key=dims.__getitem__))
        return graph.add("permute", (result,), source.dtype, source.shape, dims=back).id

    def _leave_out_unused(self) -> None:
        used = {n for t in self.tensors for n in (*t.sources, t.same) if n is not None}
        kept = [
            number
            for number, tensor in enumerate(self.tensors)
            if number in used or not (tensor.place[0] == "buffer" or len(tensor.place) > 3)
        ]
        new = {old: turn for turn, old in enumerate(kept)}
        self.tensors = [self.tensors[number] for number in kept]
        for tensor in self.tensors:
            tensor.sources = [new[number] for number in tensor.sources]
            if tensor.same is not None:
                tensor.same = new[tensor.same]
