"""The error of healthy and of faulty tensors, over the noise and over the limit."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

from power.comparing import BINS  # noqa: E402
from power.store import Record, Store  # noqa: E402

LOW, HIGH = -4.0, 8.0  # powers of ten; what is outside counts for the last bin
HEALTHY, FAULTY, LINE = "#3b6fb5", "#d1495b", "#222222"


def draw(store: Store, path: Path) -> None:
    healthy = [r for r in store.of("healthy") if r.get("histograms")]
    faulty = [r for r in store.of("faulty") if r.get("histograms")]
    precisions = sorted({record["precision"] for record in healthy})
    figure, axes = plt.subplots(
        max(len(precisions), 1), 2, figsize=(11, 2.4 * max(len(precisions), 1) + 1), squeeze=False
    )
    for row, precision in zip(axes, precisions, strict=False):
        for cell, what in zip(row, ("over_noise", "over_limit"), strict=True):
            _panel(cell, _of(healthy, precision), _of(faulty, precision), what)
            cell.set_ylabel(f"{precision}\ntensors")
    for cell, title in zip(axes[0], ("error / noise", "error / limit"), strict=True):
        cell.set_title(title)
    axes[0][0].legend(loc="upper right", frameon=False, fontsize=9)
    for cell in axes[-1]:
        cell.set_xlabel("factor (log scale)")
    figure.suptitle(
        f"Tensors of {len(healthy)} healthy and {len(faulty)} faulty runs, three noise runs"
    )
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _of(records: list[Record], precision: str) -> list[Record]:
    return [record for record in records if record["precision"] == precision]


def _panel(cell: Any, healthy: list[Record], faulty: list[Record], what: str) -> None:
    for records, colour, name in ((healthy, HEALTHY, "healthy"), (faulty, FAULTY, "faulty")):
        counts: Counter[int] = Counter()
        for record in records:
            for place, count in record["histograms"][what].items():
                if place != "zero":
                    place = min(max(int(place), round(LOW * BINS)), round(HIGH * BINS))
                    counts[place] += count
        bins = sorted(counts)
        left = [10 ** (place / BINS) for place in bins]
        width = [10 ** ((place + 1) / BINS) - 10 ** (place / BINS) for place in bins]
        heights = [counts[place] for place in bins]
        cell.bar(left, heights, width, align="edge", color=colour, alpha=0.65, label=name)
    limit, words = (4, "4 × noise") if what == "over_noise" else (1, "limit")
    cell.axvline(limit, color=LINE, linestyle="--", linewidth=1.2, label="limit")
    cell.annotate(
        words,
        (limit, 0.97),
        xycoords=("data", "axes fraction"),
        xytext=(4, 0),
        textcoords="offset points",
        va="top",
        fontsize=8,
    )
    cell.set_xscale("log")
    cell.set_yscale("log")
    cell.set_xlim(10**LOW, 10**HIGH)
    cell.spines[["top", "right"]].set_visible(False)
