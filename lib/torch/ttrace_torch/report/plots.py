"""Pictures of a report: how much of what they are allowed its tensors used."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ttrace_torch.report.errors import ReportError
from ttrace_torch.report.optional import needed
from ttrace_torch.report.parts import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FINE, _WRONG = "#4878a8", "#c0392b"
# The least share that is drawn: an exact value used 0, which has no logarithm.
LEAST = 1e-4
_IS_WRONG = ("diverged", "replica_conflict", "incomparable", "broken")
# From far within the limit to far beyond it; the limit is in the middle.
_SHADES = ("#eef4fa", "#9dbad7", "#f3b9a8", "#8c1c13")
_MOST_ROWS = 100
# Kinds in the order of a step.
_KINDS = (
    *("param", "buffer", "input", "output", "loss", "grad_output", "grad_input", "param_grad"),
    *("main_grad", "grad_norm", "optimizer_state", "param_after_step", "scalar", "index"),
)


def plot_results(results: Iterable[Result], what: str, axes: Axes | None, title: str) -> Axes:
    """Throws ReportError for a name of no picture, and where no tensor has a tolerance."""
    draw = _PICTURES.get(what)
    if draw is None:
        names = ", ".join(map(repr, _PICTURES))
        raise ReportError(f"plot({what!r}): there is no such picture; there are {names}")
    shown = [one for one in results if one.used is not None]
    if not shown:
        raise ReportError(f"plot(): no tensor has a tolerance of which it used a part ({title})")
    axes = axes if axes is not None else new_axes()
    draw(axes, shown)
    axes.set_title(title, loc="left", fontsize="medium")
    return axes


def new_axes() -> Axes:
    pyplot = needed("matplotlib.pyplot", "plot()")
    axes: Axes = pyplot.subplots(figsize=(9, 4), layout="constrained")[1]
    return axes


def height(used: float, top: float) -> float:
    """The height at which a share is drawn: at the top if it is not finite."""
    return max(used, LEAST) if math.isfinite(used) else top


def top_of(values: Sequence[float]) -> float:
    """The top of the picture: above all finite shares, and above the limit."""
    return 3 * max([1.0, *(value for value in values if math.isfinite(value))])


def draw_limit(axes: Axes) -> None:
    axes.axhline(1, color="black", linewidth=0.8, linestyle="--")
    axes.set_ylabel("error / allowed")
    axes.set_yscale("log")


def _profile(axes: Axes, shown: Sequence[Result]) -> None:
    """A mark a tensor, along the step."""
    top = top_of([_used(one) for one in shown])
    for wrong, colour in ((False, _FINE), (True, _WRONG)):
        at = [i for i, one in enumerate(shown) if _is_wrong(one) is wrong]
        heights = [height(_used(shown[i]), top) for i in at]
        label = "wrong" if wrong else "not wrong"
        axes.scatter(at, heights, s=9, color=colour, label=f"{label} ({len(at)})")
    draw_limit(axes)
    axes.set_ylim(LEAST / 2, top * 2)
    ticks: list[float] = []
    labels: list[str] = []
    for begin, end, name in _bands(shown):
        if 25 * (end - begin) > len(shown):  # a narrower one has no room for its name
            axes.axvspan(begin - 0.5, end - 0.5, facecolor="none", edgecolor="black", linewidth=0.3)
            ticks.append((begin + end - 1) / 2)
            labels.append(name)
    axes.set_xticks(ticks, labels, rotation=30, ha="right", fontsize="small")
    axes.set_xlim(-0.5, len(shown) - 0.5)
    _legend_above(axes)


def _bands(shown: Sequence[Result]) -> Iterator[tuple[int, int, str]]:
    """(first index, index past the last, name) for every series of tensors of one phase and
    step."""
    several = len({one.key.step for one in shown}) > 1
    begin = 0
    for (step, phase), members in groupby(shown, lambda one: (one.key.step, one.phase)):
        end = begin + len(list(members))
        yield begin, end, f"{phase} {step}" if several else phase
        begin = end


def _legend_above(axes: Axes) -> None:
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, fontsize="small", frameon=False)


def _layers(axes: Axes, shown: Sequence[Result]) -> None:
    """One row for each layer, one column for each kind; a cell shows the tensor that used most of
    its allowed error."""
    kinds = [kind for kind in _KINDS if any(one.key.kind == kind for one in shown)]
    layers = sorted({one.layer for one in shown if one.layer is not None})
    # With more rows than pixels some would be invisible, so several layers share a row.
    together = math.ceil(len(layers) / _MOST_ROWS)
    row_of: dict[int | None, int] = {layer: at // together for at, layer in enumerate(layers)}
    names = [f"layer {layer}" for layer in layers[:: together or 1]]
    if any(one.layer is None for one in shown):
        row_of[None] = len(names)
        names.append("not in a layer")
    top = top_of([_used(one) for one in shown])
    cells = [[math.nan] * len(kinds) for _ in names]
    for one in shown:
        if one.key.kind in kinds:
            row, column = row_of[one.layer], kinds.index(one.key.kind)
            value = math.log10(height(_used(one), top))
            old = cells[row][column]
            cells[row][column] = value if math.isnan(old) else max(old, value)
    shades = needed("matplotlib.colors", "plot()").LinearSegmentedColormap.from_list("", _SHADES)
    image = axes.imshow(cells, cmap=shades, vmin=-4, vmax=4, aspect="auto", interpolation="nearest")
    axes.set_xticks(range(len(kinds)), kinds, rotation=30, ha="right", fontsize="small")
    step = max(1, len(names) // 20)
    axes.set_yticks(range(0, len(names), step), names[::step], fontsize="small")
    bar = axes.figure.colorbar(image, ax=axes, extend="max")
    bar.set_label("error / allowed")
    bar.set_ticks(range(-4, 5, 2), labels=["≤ 1e-4", "0.01", "1", "100", "1e4"])


def _steps(axes: Axes, shown: Sequence[Result]) -> None:
    """One line for each kind: in every step, the tensor that used most of its allowed error."""
    top = top_of([_used(one) for one in shown])
    for kind in _KINDS:
        worst: dict[int, float] = {}
        for one in shown:
            if one.key.kind == kind:
                step = one.key.step
                worst[step] = max(worst.get(step, 0.0), height(_used(one), top))
        if worst:
            steps = sorted(worst)
            axes.plot(steps, [worst[step] for step in steps], marker=".", label=kind)
    draw_limit(axes)
    axes.set_xlabel("step")
    steps = sorted({one.key.step for one in shown})
    axes.set_xticks(steps[:: max(1, len(steps) // 15)])
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize="small")


def _histogram(axes: Axes, shown: Sequence[Result]) -> None:
    """How many tensors used how much."""
    top = top_of([_used(one) for one in shown])
    values = [[], []]  # type: list[list[float]]
    for one in shown:
        values[_is_wrong(one)].append(height(_used(one), top))
    count = 8 * math.ceil(math.log10(top / LEAST))
    edges = [LEAST * 10 ** (i / 8) for i in range(count + 2)]
    labels = [f"not wrong ({len(values[0])})", f"wrong ({len(values[1])})"]
    axes.hist(values, bins=edges, stacked=True, color=[_FINE, _WRONG], label=labels)
    axes.axvline(1, color="black", linewidth=0.8, linestyle="--")
    axes.set_xscale("log")
    axes.set_xlabel("error / allowed (the first bar: 1e-4 and less)")
    axes.set_ylabel("tensors")
    _legend_above(axes)


def _used(one: Result) -> float:
    return one.used if one.used is not None else math.nan


def _is_wrong(one: Result) -> bool:
    return one.outcome in _IS_WRONG


_PICTURES: dict[str, Any] = {
    "profile": _profile,
    "layers": _layers,
    "steps": _steps,
    "histogram": _histogram,
}
