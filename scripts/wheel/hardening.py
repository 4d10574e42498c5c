"""What stops a mistake in a program's memory before it is used against its user.

    python scripts/wheel/hardening.py FILE...

Names for each program or library of Linux on x86-64 what it lacks of what ttrace_hardening
(cmake/TtraceBuild.cmake) asks compiler and linker for. Needs readelf. Exit code 1 if one lacks any.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PIE = "a load address that changes (-pie)"
RELRO = "read-only relocations (-z relro)"
BIND_NOW = "symbols that are bound at the start (-z now)"
STACK = "canaries on the stack (-fstack-protector-strong)"
FORTIFY = "checked calls of the C library (_FORTIFY_SOURCE)"
ASSERTIONS = "checked accesses of the C++ library (_GLIBCXX_ASSERTIONS)"
BRANCHES = "marked targets of indirect jumps (-fcf-protection)"

ENDBR64 = b"\xf3\x0f\x1e\xfa"
CANARY = re.compile(rb"\x64\x48..\x25\x28\x00\x00\x00", re.DOTALL)  # %fs:0x28 in a register
OF_THE_C_LIBRARY = 8  # its start files have some targets that are always marked


def readelf(*arguments: str | Path) -> str:
    command = ["readelf", "--wide", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def lacks(path: Path) -> set[str]:
    """Of a file that was linked. Clang's C++ library leaves no trace of its assertions."""
    segments = readelf("--segments", path)
    dynamic = readelf("--dynamic", path)
    symbols = set(re.findall(r"(\w+)@\w", readelf("--dyn-syms", path)))
    text = text_of(path)
    found = {
        PIE: path.suffix == ".so" or bool(re.search(r"FLAGS_1.*\bPIE\b", dynamic)),
        RELRO: "GNU_RELRO" in segments,
        BIND_NOW: "BIND_NOW" in dynamic or bool(re.search(r"FLAGS_1.*\bNOW\b", dynamic)),
        # Not by __stack_chk_fail: zig has one of its own, which is no symbol of the file.
        STACK: CANARY.search(text) is not None,
        FORTIFY: any(re.fullmatch(r"__\w+_chk", name) for name in symbols),
        ASSERTIONS: "libstdc++" not in dynamic
        or any("glibcxx_assert_fail" in name for name in symbols),
        BRANCHES: text.count(ENDBR64) > OF_THE_C_LIBRARY,
    }
    return {what for what, there in found.items() if not there}


def text_of(path: Path) -> bytes:
    """The bytes of the section with the program's instructions."""
    section = re.search(r" \.text +PROGBITS +\w+ (\w+) (\w+)", readelf("--sections", path))
    if section is None:
        return b""
    begin, size = (int(number, 16) for number in section.groups())
    return path.read_bytes()[begin : begin + size]


def lacks_in_objects(archive: Path) -> set[str]:
    """Of an archive of objects, whose calls no other library's calls can hide."""
    undefined = set(re.findall(r" UND (\w+)", readelf("--symbols", archive)))
    notes = re.split(r"^File: ", readelf("--notes", archive), flags=re.MULTILINE)[1:]
    found = {
        STACK: "__stack_chk_fail" in undefined,
        FORTIFY: any(re.fullmatch(r"__\w+_chk", name) for name in undefined),
        ASSERTIONS: any("glibcxx_assert_fail" in name for name in undefined),
        BRANCHES: all("IBT, SHSTK" in note for note in notes),
    }
    return {what for what, there in found.items() if not there}


def main() -> int:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    faults = [(name, what) for name in sys.argv[1:] for what in sorted(lacks(Path(name)))]
    for name, what in faults:
        print(f"{name} lacks {what}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
