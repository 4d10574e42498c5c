"""The tables of constants on the pages of the method name every constant that can change a
verdict or a cause, with the value that it has in the code."""

from __future__ import annotations

import re

import pytest

from pages.blocks import REPOSITORY
from pages.constants_of_no_verdict import FOLDERS_OF_NO_VERDICT, OF_NO_VERDICT

LIBRARY = REPOSITORY / "lib"
PAGES = tuple(LIBRARY / room / "README.md" for room in ("judge", "audit", "localize"))
ROOMS = (
    "audit",
    "comparison",
    "judge",
    "localize",
    "measure",
    "optimizer",
    "routing",
    "specification",
)
DEFINED = re.compile(
    r"constexpr (?:double|float|int|unsigned|std::size_t|std::u?int\d+_t)"
    r" (k[A-Z]\w+)\s*=\s*([^;]+);"
)
Constant = tuple[str, str]  # its name, and its file below lib


def constants_in(path: str) -> dict[Constant, str]:
    """Each constant of a file with its literal. A name that a file defines twice counts once."""
    text = (LIBRARY / path).read_text()
    return {(name, path): literal.strip() for name, literal in DEFINED.findall(text)}


def table() -> dict[Constant, str]:
    """Each constant of the tables with its row, but for the column that names it."""
    found = {}
    for page in PAGES:
        _, _, rows = page.read_text().partition("## Constants\n")
        for cells in (row.split(" | ") for row in rows.splitlines() if "`k" in row):
            for names, file in re.findall(r"((?:`k\w+`(?:, )?)+) in `([\w/.]+)`", cells[2]):
                path = file if (LIBRARY / file).is_file() else f"{page.parent.name}/{file}"
                for name in re.findall(r"k\w+", names):
                    found[name, path] = f"{cells[0]} | {cells[1]}"
    return found


TABLE = table()


def value_of(literal: str) -> float:
    """Of a number, a quotient, a product, or a power of two that is written as a shift."""
    plain = re.sub(r"std::(?:u?int\d+|size)_t\{(\d+)\}", r"\1", literal).replace("'", "")
    shifted = re.fullmatch(r"(\d+) << (\d+)U?", plain)
    if shifted:
        return float(int(shifted[1]) << int(shifted[2]))
    value, operation = 1.0, "*"
    for part in plain.split():
        if part in {"*", "/"}:
            operation = part
            continue
        number = float.fromhex(part) if part.startswith("0x") else float(part.rstrip("U"))
        value = value * number if operation == "*" else value / number
    return value


def as_written(value: float) -> list[str]:
    """The ways in which a page writes a number."""
    forms = [f"{value:g}".replace("e-0", "e-"), f"{value * 100:g} %", f"{value / 1e6:g} MB"]
    if value.is_integer():
        forms.append(f"{value:,.0f}")
    if 0 < value < 1:
        forms.append(f"1/{1 / value:g}")
    exponent = re.fullmatch(r"0x1\.0+p([+-]\d+)", float(value).hex())
    if exponent:
        forms.append(
            "2" + str(int(exponent[1])).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        )
    return forms


@pytest.mark.parametrize(("name", "path"), TABLE)
def test_a_constant_has_the_value_of_its_row(name: str, path: str) -> None:
    value = value_of(constants_in(path)[name, path])
    written = "|".join(map(re.escape, as_written(value)))
    pattern = rf"(?<![\d.,/])(?:{written})(?!\d|[.,]\d|e-|[⁻⁰¹²³⁴-⁹])"
    assert re.search(pattern, TABLE[name, path]), value


@pytest.mark.parametrize("room", ROOMS)
def test_every_constant_of_a_room_has_a_row_or_changes_no_verdict(room: str) -> None:
    files = [path for path in (LIBRARY / room).rglob("*") if path.suffix in {".h", ".cpp"}]
    paths = [str(path.relative_to(LIBRARY)) for path in files]
    paths = [path for path in paths if not path.startswith(tuple(FOLDERS_OF_NO_VERDICT))]
    defined = {constant for path in paths for constant in constants_in(path)}
    without = {constant for constant in OF_NO_VERDICT if constant[1].startswith(f"{room}/")}
    assert defined
    lacking = defined - without - set(TABLE)
    gone = without - defined
    in_both = without & set(TABLE)
    assert not lacking and not gone and not in_both
