"""The table of constants on the page of the method has every constant of lib/judge that can change
a verdict, with the value that it has in the code."""

from __future__ import annotations

import re

import pytest

from pages.blocks import REPOSITORY

JUDGE = REPOSITORY / "lib" / "judge"
DEFINED = re.compile(
    r"constexpr (?:double|std::uint64_t|std::size_t|int) (k[A-Z]\w+) = ([^;]+); *(?://.*)?$", re.M
)
# Constants that decide how an answer is computed or told, and never what it is.
OF_NO_VERDICT = {
    "kTiny": "a continued fraction",
    "kMostTerms": "the same",
    "kMostLayers": "what counts as the number of a layer",
    "kQuantumNamed": "when a formula mentions a term",
    "kMostKept": "slices that are listed",
    "kBytesPerTensor": "the size of a calibration's file",
    "kBytesPerCell": "the same",
}


def table() -> dict[tuple[str, str], str]:
    """(constant, its file) -> its row, but for the name."""
    rows = (JUDGE / "README.md").read_text().split("## Constants\n")[1].splitlines()
    found = {}
    for cells in (row.split(" | ") for row in rows if "`k" in row):
        for names, file in re.findall(r"((?:`k\w+`(?:, )?)+) in `([\w/.]+)`", cells[2]):
            path = file if "/" in file else f"judge/{file}"
            for name in re.findall(r"k\w+", names):
                found[name, path] = f"{cells[0]} | {cells[1]}"
    return found


TABLE = table()


def value_of(literal: str) -> float:
    over, _, under = literal.partition(" / ")
    number = float.fromhex(over) if over.startswith("0x") else float(over)
    return number / (float(under) if under else 1)


def as_written(value: float) -> list[str]:
    """The ways in which the page writes a number."""
    forms = [f"{value:g}", f"{value:,.0f}", f"{value * 100:g} %", f"{value / 1e6:g} MB"]
    if 0 < value < 1:
        forms.append(f"1/{1 / value:g}")
    return [*forms, *(["2⁻⁴⁰"] if value == 2**-40 else [])]


def defined_in(path: str) -> dict[str, str]:
    return dict(DEFINED.findall((REPOSITORY / "lib" / path).read_text()))


@pytest.mark.parametrize(("name", "path"), TABLE)
def test_a_constant_has_the_value_of_its_row(name: str, path: str) -> None:
    value = value_of(defined_in(path)[name])
    written = "|".join(map(re.escape, as_written(value)))
    assert re.search(rf"(?<![\d.,/])(?:{written})(?!\d|[.,]\d)", TABLE[name, path]), value


def test_every_constant_of_the_judge_has_a_row() -> None:
    files = [path for path in sorted(JUDGE.iterdir()) if path.suffix in {".h", ".cpp"}]
    defined = {(name, f"judge/{f.name}") for f in files for name in defined_in(f"judge/{f.name}")}
    assert len(defined) > 20
    lacking = {(name, path) for name, path in defined if name not in OF_NO_VERDICT} - set(TABLE)
    assert not lacking
    assert set(OF_NO_VERDICT) <= {name for name, _ in defined}
