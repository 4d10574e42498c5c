"""The steps that make a view, and those of a view by strides."""

from __future__ import annotations

from typing import NamedTuple


class Step(NamedTuple):
    """One step of a view: reshape, permute, expand, slice, or gather, which cannot be undone.

    shape: of the result. where: dims of a permutation; dim, start, stop and step of a slice; the
    first element and the strides of a gather from the elements in row-major order.
    """

    primitive: str
    shape: tuple[int, ...]
    where: tuple[int, ...] = ()


def strided_steps(
    base: tuple[int, ...], size: tuple[int, ...], stride: tuple[int, ...], offset: int
) -> tuple[Step, ...] | None:
    """The steps from a contiguous tensor of shape `base` to a view of its elements by strides, no
    element twice; None if slices cannot make it."""
    order = by_stride(size, stride)
    sizes = tuple(size[dim] for dim in order)
    if not is_contiguous(sizes, tuple(stride[dim] for dim in order)):
        grid = _steps_of_grid(base, size, stride, offset, order)
        return grid or _steps_of_rows(base, size, stride, offset, order)
    total, count = _product(base), _product(sizes)
    if offset < 0 or offset + count > total:
        return None
    steps = []
    if count != total:
        steps.append(Step("reshape", (total,)))
        steps.append(Step("slice", (count,), (0, offset, offset + count, 1)))
    return (*steps, *_in_order(size, order))


def _in_order(size: tuple[int, ...], order: list[int]) -> tuple[Step, Step]:
    """The steps to shape `size` from elements whose dimensions have descending strides."""
    back = tuple(order.index(dim) for dim in range(len(size)))
    return Step("reshape", tuple(size[dim] for dim in order)), Step("permute", size, back)


def _steps_of_grid(
    base: tuple[int, ...],
    size: tuple[int, ...],
    stride: tuple[int, ...],
    offset: int,
    order: list[int],
) -> tuple[Step, ...] | None:
    """The steps of a view whose elements have gaps between them; None if it has no such form.

    order: the dimensions by descending stride.
    """
    if offset < 0 or 0 in size:
        return None
    wide = [dim for dim in order if size[dim] != 1]
    grid = _grid(_product(base), [stride[dim] for dim in wide])
    if grid is None:
        return None
    steps = [] if base == grid else [Step("reshape", grid)]
    cut, rest = list(grid), offset
    for turn, extent in enumerate(grid):
        apart = _product(grid[turn + 1 :])
        start, rest = divmod(rest, apart)
        stop = start + (size[wide[turn]] if turn < len(wide) else 1)
        if stop > extent:
            return None
        cut[turn] = stop - start
        if (start, stop) != (0, extent):
            steps.append(Step("slice", tuple(cut), (turn, start, stop, 1)))
    return (*steps, *_in_order(size, order))


def _steps_of_rows(
    base: tuple[int, ...],
    size: tuple[int, ...],
    stride: tuple[int, ...],
    offset: int,
    order: list[int],
) -> tuple[Step, ...] | None:
    """The steps of a view whose strides do not divide each other, such as a relative shift of rows
    makes: for each dimension, those elements that fill its rows are cut out, and arranged as
    [rows, stride]. None if rows overlap or reach beyond the elements."""
    if offset < 0 or 0 in size:
        return None
    wide = [dim for dim in order if size[dim] != 1]
    shape: tuple[int, ...] = (_product(base),)
    steps = [Step("reshape", shape)]
    for turn, dim in enumerate(wide):
        count, apart, there = size[dim], stride[dim], shape[-1]
        span = 1 + sum((size[inner] - 1) * stride[inner] for inner in wide[turn + 1 :])
        # The rows begin before the first element where the last one would be cut short.
        before = max(0, offset + count * apart - there)
        start, stop = offset - before, offset - before + count * apart
        if start < 0 or before + span > apart:
            return None
        if (start, stop) != (0, there):
            where = (len(shape) - 1, start, stop, 1)
            steps.append(Step("slice", (*shape[:-1], stop - start), where))
        shape, offset = (*shape[:-1], count, apart), before
        steps.append(Step("reshape", shape))
    if shape[-1] != 1:
        where = (len(shape) - 1, offset, offset + 1, 1)
        steps.append(Step("slice", (*shape[:-1], 1), where))
    return (*steps, *_in_order(size, order))


def _grid(total: int, strides: list[int]) -> tuple[int, ...] | None:
    """A shape of `total` elements in which each stride is one step along a dimension of its own, in
    order; the last dimension has the elements within the smallest stride. None if strides do not
    divide each other."""
    grid, apart = [], total
    for stride in strides:
        if stride < 1 or apart % stride != 0:
            return None
        grid.append(apart // stride)
        apart = stride
    return (*grid, apart)


def by_stride(size: tuple[int, ...], stride: tuple[int, ...]) -> list[int]:
    """The dimensions, that of the largest stride first."""
    return sorted(range(len(size)), key=lambda dim: (-stride[dim], size[dim] == 1))


def is_contiguous(size: tuple[int, ...], stride: tuple[int, ...]) -> bool:
    """Whether these are the strides of row-major order."""
    expected = 1
    for extent, step in zip(reversed(size), reversed(stride)):
        if extent != 1 and step != expected:
            return False
        expected *= extent
    return True


def _product(sizes: tuple[int, ...]) -> int:
    result = 1
    for size in sizes:
        result *= size
    return result
