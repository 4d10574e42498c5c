"""Over which axes of a mesh the samples of a batch are dealt out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from ttrace_torch.errors import TraceError
from ttrace_torch.layout.layouts import Layout
from ttrace_torch.layout.mesh import Mesh
from ttrace_torch.layout.placements import Placements, Replicate, mesh_name_of

# Axes by their usual names: ranks along the first ones get samples of their own, ranks along the
# others see the same samples.
_DEALT = ("dp", "dp_replicate", "dp_shard")
_SHARED = ("cp", "tp", "pp", "sp")
_EXPERTS = "ep"


@dataclass(frozen=True)
class DataRanks:
    """The ranks that differ only in the samples that they get.

    ranks: in the order of their numbers, this rank among them.
    place: this rank's number among them, and their number; None if not known.
    unknown: axes of which neither name nor arguments say whether their ranks get own samples.
    axes: those of the mesh over which samples are dealt out, as far as layouts by hand say it.
    """

    ranks: tuple[int, ...]
    place: tuple[int, int] | None
    unknown: tuple[str, ...] = ()
    axes: tuple[str, ...] = ()

    @property
    def doubt(self) -> str | None:
        """A sentence about the axes in `unknown`; None without any."""
        if not self.unknown:
            return None
        one = len(self.unknown) == 1
        named = f'"{self.unknown[0]}"' if one else str(self.unknown)
        return (
            f"whether samples are dealt out over the mesh {'axis' if one else 'axes'} "
            f"{', '.join(self.unknown)} is not known, so micro-batches are numbered as if all its "
            f"ranks got the same ones; say trace(dp_axis={named}) if each gets its own, "
            "dp_axis=() if none does"
        )


def data_ranks(
    mesh: Mesh,
    rank: int,
    given: str | Iterable[str] | None,
    layouts: Iterable[Layout],
    tp_axis: str = "tp",
) -> DataRanks:
    """The data-parallel ranks on `mesh` that `rank` is one of.

    given: the axes over which samples are dealt out, the slowest first; None for those whose names
        say so, and for the experts' axis inside them.
    layouts: an axis over which one of them cuts activations holds parts of each micro-batch, and
        is not counted.
    Throws TraceError for `given` axes whose ranks see the same samples, or that the mesh cannot
    mean.
    """
    shared = {*_SHARED, tp_axis}
    cut = {axis for layout in layouts for one in _activations(layout) for axis in one}
    open_axes = [a for a, n in mesh.axes.items() if n > 1 and a not in shared and a not in cut]
    if given is None:
        axes = [axis for axis in open_axes if axis in _DEALT]
        if _EXPERTS in open_axes and axes and _is_inside(mesh, _EXPERTS, axes):
            axes.append(_EXPERTS)
        unknown = tuple(axis for axis in open_axes if axis not in axes)
    else:
        axes, unknown = _checked(given, mesh, shared, open_axes), ()
        axes = [axis for axis in axes if mesh.axes.get(axis, 1) > 1 and axis not in cut]
    line = _line(mesh, rank, axes)
    place = None if unknown else (line.index(rank), len(line))
    return DataRanks(line, place, unknown, tuple(axes))


def _is_inside(mesh: Mesh, axis: str, others: Sequence[str]) -> bool:
    order = list(mesh.axes)
    return all(order.index(other) < order.index(axis) for other in others)


def _checked(
    given: str | Iterable[str], mesh: Mesh, shared: Iterable[str], open_axes: Sequence[str]
) -> list[str]:
    axes = [given] if isinstance(given, str) else list(given)
    for axis in axes:
        if axis in shared:
            raise TraceError(
                f'dp_axis={given!r}: the ranks of "{axis}" see the same samples; name the axes '
                "over which samples are dealt out"
            )
    if len(set(axes)) < len(axes):
        raise TraceError(f"dp_axis={given!r} names an axis twice")
    # A mesh without data parallelism may lack all of these; with axes of unknown meaning, one of
    # these is misspelt.
    if axes and open_axes and not any(axis in mesh.axes for axis in axes):
        raise TraceError(f"dp_axis={given!r}: the mesh has the axes {', '.join(mesh.axes)}")
    return axes


def _line(mesh: Mesh, rank: int, axes: Sequence[str]) -> tuple[int, ...]:
    """The ranks that differ from `rank` in these axes alone, the first axis slowest."""
    where = mesh.coordinate(rank)
    ranges = [range(mesh.axes[axis]) for axis in axes]
    return tuple(mesh.rank_at({**where, **dict(zip(axes, turn))}) for turn in product(*ranges))


def _activations(layout: Layout) -> Iterable[Placements]:
    """The placements that differ between ranks which a layout gives to activations, on the
    default mesh."""
    for given in (layout.input, layout.output, layout.grad_output):
        for one in [given] if given is None or isinstance(given, Mapping) else given:
            if one and not mesh_name_of(one):
                yield {axis: p for axis, p in one.items() if p != Replicate()}
