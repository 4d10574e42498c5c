"""The table of a matrix: the answer first, then a line for each layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ttrace_torch.matrix.judge import FINE, INCONCLUSIVE, UNUSABLE, WRONG, Verdict

_TITLES = {WRONG: "DIVERGED", UNUSABLE: "FAILED", INCONCLUSIVE: "INCONCLUSIVE", FINE: "MATCH"}
_WORST_FIRST = (WRONG, UNUSABLE, INCONCLUSIVE, FINE)


@dataclass(frozen=True)
class Row:
    """What became of one layout.

    error: why it could not be made, trained or read; "" where it was.
    kept: the folder of its trace and reports, if they are kept.
    """

    layout: str
    seconds: float
    verdicts: Sequence[Verdict] = ()
    error: str = ""
    kept: Path | None = None

    @property
    def code(self) -> int:
        codes = [v.code for v in self.verdicts] + ([UNUSABLE] if self.error else [])
        return next(code for code in _WORST_FIRST if code in codes)

    @property
    def headline(self) -> str:
        """Why the layout is not fine; "" if it is."""
        if self.code == UNUSABLE and self.error:
            return self.error
        worst = next(v for v in self.verdicts if v.code == self.code)
        return "" if worst.code == FINE else worst.headline

    def word(self, command: str) -> str:
        return next((v.word for v in self.verdicts if v.command == command), "-")

    @property
    def compared(self) -> Verdict | None:
        return next((v for v in self.verdicts if v.command == "compare"), None)


@dataclass(frozen=True)
class Matrix:
    """What became of all layouts. As a text it is the table.

    exit_code: that of the worst layout, as `ttrace compare` has them.
    notes: what a reader must know besides, such as which reference was used.
    """

    rows: Sequence[Row]
    notes: Sequence[tuple[str, str]] = field(default=())

    @property
    def exit_code(self) -> int:
        codes = [row.code for row in self.rows]
        return next(code for code in _WORST_FIRST if code in codes)

    @property
    def headline(self) -> str:
        """The answer, one line."""
        code = self.exit_code
        bad = [row for row in self.rows if row.code == code]
        if code != FINE:
            names = ", ".join(row.layout for row in bad)
            count = f"{len(bad)} of {len(self.rows)} layout{'s' * (len(self.rows) > 1)}"
            return f"{_TITLES[code]}  {names} ({count}): {bad[0].headline}"
        many = len(self.rows) > 1
        text = f"{len(self.rows)} layout{'s' * many} agree{'s' * (not many)} with one process"
        if all(row.word("audit") != "-" for row in self.rows):
            text += f" and hold{'s' * (not many)} by {'themselves' if many else 'itself'}"
        worst = max(self.rows, key=lambda row: _used(row) or 0.0)
        share = _share(worst)
        return f"MATCH  {text}; the closest to its limit used {share} of it ({worst.layout})"

    def __str__(self) -> str:
        head = ("layout", "compare", "audit", "worst", "seconds", "headline")
        cells = [
            (
                row.layout,
                row.word("compare"),
                row.word("audit"),
                _share(row),
                f"{row.seconds:.1f}",
                row.headline or _closest(row),
            )
            for row in self.rows
        ]
        widths = [max(len(line[i]) for line in [head, *cells]) for i in range(len(head) - 1)]
        lines = [self.headline]
        for line in [head, *cells]:
            parts = [text.ljust(width) for text, width in zip(line, widths)]
            lines.append("  ".join(["", *parts, line[-1]]).rstrip())
        lines += [f"  {row.layout}: kept in {row.kept}" for row in self.rows if row.kept]
        lines += [f"  {name}  {text}" for name, text in self.notes]
        return "\n".join(lines)


def _used(row: Row) -> float | None:
    return None if row.compared is None else row.compared.used


def _share(row: Row) -> str:
    """The worst share of an allowed error, in percent, or in times where it is far beyond."""
    used = _used(row)
    if used is None:
        return "-"
    return f"{100 * used:.0f} %" if used < 10 else f"{used:.3g} ×"


def _closest(row: Row) -> str:
    """Kind and name of the tensor that came closest to its limit, taken from its id
    step/mb/kind/name/call/copy."""
    compared = row.compared
    if compared is None or compared.closest.count("/") < 5:
        return ""
    kind, name = compared.closest.split("/", 2)[2].rsplit("/", 2)[0].split("/", 1)
    return f"{name} · {kind}"
