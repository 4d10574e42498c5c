"""Where a sharded tensor's dimension goes in the operations of the autograd graph.

Each rule maps the placement of one input of a backward node to that of its output, from the shapes
of both and what the node has saved. Sizes are those of the local tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from ttrace_torch.layout.placements import Placement, Shard, Strided

Shape = Sequence[int]

# Operations that treat elements one by one, with broadcasting.
_POINTWISE = frozenset(
    [
        "Abs",
        "Add",
        "Addcmul",
        "Alias",
        "Clamp",
        "Clone",
        "Cos",
        "Div",
        "Elu",
        "Erf",
        "Exp",
        "Gelu",
        "Hardswish",
        "LeakyRelu",
        "Log",
        "MaskedFill",
        "Maximum",
        "Minimum",
        "Mul",
        "NativeDropout",
        "Neg",
        "Pow",
        "Relu",
        "Rsqrt",
        "Sigmoid",
        "Silu",
        "Sin",
        "Softplus",
        "Sqrt",
        "Sub",
        "Tanh",
        "ToCopy",
        "Where",
    ]
)
_VIEWS = frozenset({"View", "UnsafeView", "ReshapeAlias"})
# Operations along the dimension `_saved_dim`, which leave all others as they are.
_ALONG = frozenset({"Slice", "Split", "SplitWithSizes", "Cat", "Softmax", "LogSoftmax", "Cumsum"})
_REDUCTIONS = frozenset({"Mean", "Sum", "Amax", "Logsumexp", "Var"})
# Functions of transformers that sum over the ranks: first the value, then the gradient coming back.
REDUCTIONS_OF_VALUES = frozenset({"_AllReduceForward"})
REDUCTIONS_OF_GRADIENTS = frozenset({"_AllReduceBackward"})
_NORMS = frozenset({"NativeLayerNorm", "FusedRmsNorm"})


def moved(node: Any, place: int, given: Placement, shape: Shape, out: Shape) -> Placement | None:
    """The output's placement where the node's `place`-th input, of `shape`, is cut as `given`.

    Returns None if the operation is not known to keep the cut.
    """
    if not isinstance(given, (Shard, Strided)):
        return None
    name = operation(node)
    if name == "RegisterPostBackwardFunction":
        # FSDP2's node on a module's inputs.
        return given if tuple(shape) == tuple(out) else None
    if name in _POINTWISE:
        dim = given.dim + len(out) - len(shape)
        return _at(given, dim) if out[dim] == shape[given.dim] else None
    if name in _VIEWS:
        return _viewed(given, shape, out)
    if name.startswith("ScaledDotProduct"):
        # Heads and batches are independent of each other.
        return given if place < 3 and given.dim < len(out) - 2 else None
    if name in ("Mm", "Addmm", "Bmm"):
        return _product(name, place, given)
    if name == "Split" and isinstance(given, Strided) and _cuts_runs(node, given, shape):
        return Shard(given.dim)
    if name in _NORMS:
        rows = len(out) - len(node._saved_normalized_shape)
        return given if place == 0 and given.dim < rows else None
    after = _dim_after(name, node, given.dim, shape, out)
    return None if after is None else _at(given, after)


def operation(node: Any) -> str:
    """The name of a node's operation: "Mul" of MulBackward0."""
    name = str(node.name()).rpartition("::")[2]
    return name.rstrip("0123456789").removesuffix("Backward")


def _dim_after(name: str, node: Any, dim: int, shape: Shape, out: Shape) -> int | None:
    """Where dimension `dim` of the input is in the output."""
    rank = len(shape)
    if name == "Transpose":
        first, second = _signed(node._saved_dim0, rank), _signed(node._saved_dim1, rank)
        return {first: second, second: first}.get(dim, dim)
    if name == "T":
        return rank - 1 - dim
    if name == "Permute":
        return [_signed(one, rank) for one in node._saved_dims].index(dim)
    if name == "Expand":
        after = dim + len(out) - rank
        return after if out[after] == shape[dim] else None
    if name == "Unsqueeze":
        return dim + 1 if _signed(node._saved_dim, rank + 1) <= dim else dim
    if name in ("Squeeze", "Select", "Unbind") and hasattr(node, "_saved_dim"):
        gone = _signed(node._saved_dim, rank)
        kept = len(out) == rank
        return None if gone == dim else dim if kept or dim < gone else dim - 1
    if name in _ALONG:
        return None if _signed(node._saved_dim, rank) == dim else dim
    if name in _REDUCTIONS:
        return _dim_after_sum(node, dim, shape, out)
    return None


def _dim_after_sum(node: Any, dim: int, shape: Shape, out: Shape) -> int | None:
    saved = getattr(node, "_saved_dim", None)
    if saved is None:
        return None
    gone = {_signed(one, len(shape)) for one in (saved if isinstance(saved, tuple) else (saved,))}
    if dim in gone or not gone:
        return None
    return dim if len(out) == len(shape) else dim - sum(one < dim for one in gone)


def _product(name: str, place: int, given: Placement) -> Placement | None:
    """A product of matrices: it has the rows of the first and the columns of the second; batches
    are independent."""
    dim = given.dim  # type: ignore[attr-defined]
    if name == "Bmm":
        return given if dim == 0 or dim == place + 1 else None
    first = 1 if name == "Addmm" else 0
    return given if place >= first and dim == place - first else None


def _viewed(given: Placement, shape: Shape, out: Shape) -> Placement | None:
    """The placement of a cut dimension after a change of shape: it cuts runs of elements."""
    dim: int = given.dim  # type: ignore[attr-defined]
    for start, stop, first, last in _groups(shape, out):
        if not start <= dim < stop:
            continue
        # Number of runs of elements in this group of dimensions; each run is cut on its own.
        runs = prod(shape[start:dim]) * (given.stride if isinstance(given, Strided) else 1)
        places = [
            e for e in range(first, last) if runs % prod(out[first:e]) == 0 and out[e] % _left(
                runs, out, first, e) == 0
        ]  # fmt: skip
        if not places:
            return None
        most = max(prod(out[first:e]) for e in places)
        best = [e for e in places if prod(out[first:e]) == most]
        # Features become heads and features of a head. Other dimensions get or lose a 1 in front.
        same = [e for e in best if out[e] == shape[dim]]
        place = same[0] if same and dim < len(shape) - 1 else best[0]
        left = _left(runs, out, first, place)
        return Shard(place) if left == 1 else Strided(place, left)
    return None


def _left(runs: int, out: Shape, first: int, place: int) -> int:
    """Number of runs within dimension `place`."""
    return max(1, runs // prod(out[first:place]))


def _groups(shape: Shape, out: Shape) -> Iterator[tuple[int, int, int, int]]:
    """Ranges of dimensions, of the input and of the output, with the same elements each."""
    i = j = 0
    while i < len(shape) and j < len(out):
        start, first = i, j
        size, other = shape[i], out[j]
        i, j = i + 1, j + 1
        while size != other:
            if size < other and i < len(shape):
                size, i = size * shape[i], i + 1
            elif size > other and j < len(out):
                other, j = other * out[j], j + 1
            else:
                return
        if i == len(shape):
            j = len(out)
        elif j == len(out):
            i = len(shape)
        yield start, i, first, j


def _cuts_runs(node: Any, given: Strided, shape: Shape) -> bool:
    """Whether a split gives each run of a dimension a tensor of its own, such as gate and up."""
    along = _signed(node._saved_dim, len(shape)) == given.dim
    return along and int(node._saved_split_size) * given.stride == shape[given.dim]


def _at(given: Placement, dim: int) -> Placement | None:
    if dim < 0:
        return None
    return Strided(dim, given.stride) if isinstance(given, Strided) else Shard(dim)


def _signed(saved: int, rank: int) -> int:
    """A dimension that the graph keeps as an unsigned number, counted from 0."""
    return (saved - (1 << 64) if saved >= 1 << 63 else saved) % rank
