"""The page about what a wheel has linked in, held against the list that it is built from."""

from __future__ import annotations

import re
from pathlib import Path

from support.wheels import ROOT

WHEEL = ROOT / "scripts" / "wheel"


def listed(text: str) -> list[list[str]]:
    """Name, package, version, file and SHA-256 of each line."""
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


def upstream(version: str) -> str:
    """1.3.2 of 1:1.3.dfsg+really1.3.2-3: without what Debian adds."""
    return re.sub(r"[-+].*", "", re.sub(r"^\d+:|^.*\+really", "", version.replace("1:", "", 1)))


def rows(page: str) -> dict[str, list[str]]:
    """The cells behind the name, of every row of the first table."""
    table = page.split("| library |")[1].split("\n\n")[0]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    return {name: rest for name, *rest in cells}


def differences(page: str, third_party: str) -> list[str]:
    told = rows(page)
    names = []
    found = []
    for name, package, version, _, checksum in listed(third_party):
        names.append(name)
        wanted = [upstream(version), f"Debian `{package}` {version}", f"`{checksum}`"]
        if told.get(name, [])[:3] != wanted:
            found.append(f"{name}: {told.get(name, [])[:3]}, not {wanted}")
        elif not told[name][3]:
            found.append(f"{name}: nothing about what is known against it")
    of_debian = {name for name, cells in told.items() if cells[1].startswith("Debian ")}
    return found + [f"{name} is not linked in" for name in sorted(of_debian - set(names))]


PAGE = (WHEEL / "README.md").read_text(encoding="utf-8")
LIST = (WHEEL / "third_party.txt").read_text(encoding="utf-8")


def test_the_page_names_what_is_linked_in() -> None:
    assert differences(PAGE, LIST) == []


def test_another_version_another_checksum_and_a_missing_row_are_told() -> None:
    for name, _, version, _, checksum in listed(LIST):
        newer = LIST.replace(f" {version} ", " 99.1-1 ")
        assert [line.split(":")[0] for line in differences(PAGE, newer)] == [name]
        other = LIST.replace(checksum, "0" * 64)
        assert [line.split(":")[0] for line in differences(PAGE, other)] == [name]
    first, *others = LIST.splitlines()[2:]
    gone = differences(PAGE, "\n".join(others))
    assert gone == [f"{first.split()[0]} is not linked in"]
    more = differences(PAGE, f"{LIST}new new 1.0-1 new.tar.gz {'0' * 64}\n")
    assert [line.split(":")[0] for line in more] == ["new"]


def test_versions_are_those_of_the_projects() -> None:
    assert upstream("1:1.3.dfsg+really1.3.2-3") == "1.3.2"
    assert upstream("1.14.6+repack-2") == "1.14.6"
    assert upstream("3.11.2-2") == "3.11.2"


def test_the_page_names_the_compiler_that_builds_a_wheel() -> None:
    script = (ROOT / "scripts" / "build_wheel.sh").read_text(encoding="utf-8")
    (zig,) = re.findall(r"ziglang==([0-9.]+)", script)
    assert f"`ziglang` {zig} of PyPI" in PAGE


def test_a_licence_is_kept_of_every_library() -> None:
    script = (WHEEL / "third_party.sh").read_text(encoding="utf-8")
    kept = script.split("keep_licences() {")[1].split("; do")[0]
    assert [name for name, *_ in listed(LIST) if f" {name}/" not in kept] == []


def test_the_files_are_those_of_the_versions() -> None:
    for name, _, version, file, checksum in listed(LIST):
        assert upstream(version) in file, name
        assert re.fullmatch(r"[0-9a-f]{64}", checksum), name
        assert Path(file).name == file
