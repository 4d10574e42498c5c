"""The same step for micro-batches of other sizes.

A variant holds for all data of its sizes, if every size in it follows from the sizes of the data.
The number of tokens that an expert gets does not: then the graph of one micro-batch is no formula
for another, and each micro-batch has a variant of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from ttrace_torch.base.names import ROOT
from ttrace_torch.specification.graph import Graph, is_from_outside
from ttrace_torch.specification.marks import Mark, Place

# Kinds that come from the data of the run, where nothing in the step computes them.
_DATA = frozenset({"input", "scalar", "index"})
# A size is a product of at most this many sizes of the data: samples, rows and columns.
_MOST_FACTORS = 3
# What padding and shifting by one token add to a size of the data.
_ADDED = (0, -1, 1)
# The most different sizes of data whose products are tried.
_MOST_SIZES = 8

# One size for each variant.
Extents = tuple[int, ...]


class Variant(NamedTuple):
    """The marks of a micro-batch and of the step.

    microbatch: the only one that they hold for; None if they hold for all of their sizes.
    """

    marks: dict[Place, Mark]
    microbatch: int | None = None


def variants_of_each(
    of_step: dict[Place, Mark], microbatches: dict[int, dict[Place, Mark]]
) -> list[Variant]:
    """One variant for each micro-batch, that holds for it alone; none where there is only one."""
    if len(microbatches) < 2:
        return []
    return [Variant({**of_step, **marks}, number) for number, marks in microbatches.items()]


def variants_of(
    graph: Graph, of_step: dict[Place, Mark], microbatches: Sequence[dict[Place, Mark]]
) -> list[Variant]:
    """One variant for each set of sizes that micro-batches have: the marks of one micro-batch with
    these sizes, and those of the step.

    Empty if all micro-batches have the same sizes, or some size does not follow from the data's.
    """
    found: list[Variant] = []
    known: list[dict[Place, Extents]] = []
    sizes: list[dict[Place, Extents]] = []
    for marks in microbatches:
        shapes = {place: mark.shape for place, mark in marks.items()}
        of_data = {p: shape for p, shape in shapes.items() if _is_data(graph, p, marks[p])}
        if of_data not in known:
            known.append(of_data)
            sizes.append(shapes)
            found.append(Variant({**of_step, **marks}))
        elif not _agree(shapes, sizes[known.index(of_data)]):
            return []
    if len(found) < 2:
        return []
    of_data_alone = set(_differing(known))
    if len(of_data_alone) > _MOST_SIZES:
        return []
    explained = set(_products(of_data_alone))
    if any(not _follows(extents, explained) for extents in _differing(sizes)):
        return []
    return found


def _is_data(graph: Graph, place: Place, mark: Mark) -> bool:
    """Whether it is what the model is given, or recorded from outside of it, such as labels."""
    kind, name, *_ = place
    if kind not in _DATA or (kind == "input" and name.split("[")[0] != ROOT):
        return False
    return is_from_outside(graph.nodes[mark.value.id])


def _agree(one: dict[Place, Extents], other: dict[Place, Extents]) -> bool:
    """Whether tensors that both have are of the same sizes."""
    return all(shape == other.get(place, shape) for place, shape in one.items())


def _differing(sizes: Sequence[dict[Place, Extents]]) -> Iterator[Extents]:
    """The sizes of each dimension that differs between micro-batches, one size for each
    micro-batch. A tensor that some micro-batches lack, or have with another number of dimensions,
    gives sizes of -1, which no data explains."""
    for place in {place: None for shapes in sizes for place in shapes}:
        shapes = [one[place] for one in sizes if place in one]
        if len(shapes) < len(sizes) or len({len(shape) for shape in shapes}) > 1:
            yield (-1,) * len(sizes)
            continue
        for extents in zip(*shapes):
            if len(set(extents)) > 1:
                yield extents


def _products(sizes: set[Extents]) -> Iterator[Extents]:
    """The sizes that may follow from those of the data: products of them, each plus 0, 1 or -1."""
    single = sorted({tuple(one + added for one in size) for size in sizes for added in _ADDED})
    for count in range(1, _MOST_FACTORS + 1):
        for factors in combinations(single, count):
            product = [1] * len(factors[0])
            for factor in factors:
                product = [one * other for one, other in zip(product, factor)]
            yield tuple(product)


def _follows(extents: Extents, explained: set[Extents]) -> bool:
    """Whether a size is proportional to one that is explained."""
    return any(
        all(one * other[0] == extents[0] * two for one, two in zip(extents, other))
        for other in explained
        if all(size > 0 for size in other)
    )
