"""Checks a wheel that is to run on other machines, and says how large it is.

    python scripts/wheel/check_wheel.py [--glibc 2.28] WHEEL

Its program and library ask for the C library alone, in no version above --glibc, and have the
checks of hardening.py. Its modules are those of this tree and no others, and it has our licence
and those of what is linked in. Needs objdump and readelf. Exit code 1, with a line for each fault.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import hardening

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "lib" / "torch" / "ttrace_torch"
# Parts of the C library, which glibc 2.34 joined in libc.so.6.
OF_GLIBC = {f"lib{name}.so" for name in ("c", "m", "dl", "pthread", "rt", "util")}


def version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def objdump(*arguments: str) -> str:
    return subprocess.run(
        ["objdump", *arguments], check=True, capture_output=True, text=True
    ).stdout


def faults_of_binary(name: str, path: Path, glibc: str) -> list[str]:
    faults = []
    headers = objdump("-p", str(path))
    for needed in re.findall(r"NEEDED\s+(\S+)", headers):
        if needed.split(".so")[0] + ".so" not in OF_GLIBC and not needed.startswith("ld-linux"):
            faults.append(f"{name} needs {needed} of the machine")
    if re.search(r"R(UN)?PATH", headers):
        faults.append(f"{name} looks for libraries in a folder of the machine that built it")
    versions = sorted(set(re.findall(r"GLIBC_([0-9.]+)", objdump("-T", str(path)))), key=version)
    print(f"{name}: {path.stat().st_size / 1e6:.1f} MB, asks for glibc {versions[-1]}")
    faults += [
        f"{name} asks for glibc {found}: {', '.join(symbols_of(path, found))}"
        for found in versions
        if version(found) > version(glibc)
    ]
    lacking = hardening.lacks(path)
    if name == "ttrace_cuda.so":  # of nvcc's code, and of what calls it, which has no arrays
        lacking &= {hardening.RELRO, hardening.BIND_NOW}
    return faults + [f"{name} lacks {what}" for what in sorted(lacking)]


def symbols_of(path: Path, glibc: str) -> list[str]:
    pattern = rf"GLIBC_{re.escape(glibc)}\)?\s+(\S+)"
    return sorted(set(re.findall(pattern, objdump("-T", str(path)))))


def faults_of_files(names: list[str]) -> list[str]:
    modules = {
        f"ttrace_torch/{path.relative_to(PACKAGE).as_posix()}"
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    packed = {name for name in names if name.startswith("ttrace_torch/")}
    faults = [f"{name} is missing" for name in sorted(modules - packed)]
    faults += [f"{name} is not in this tree" for name in sorted(packed - modules)]
    has_cuda = any(name.endswith("/ttrace_cuda.so") for name in names)
    for wanted in (
        *([r"ttrace_torch-[^/]*\.dist-info/licenses/linked/cudart\.txt"] if has_cuda else []),
        r"ttrace_torch-[^/]*\.dist-info/licenses/LICENSE",
        r"ttrace_torch-[^/]*\.dist-info/licenses/linked/hdf5\.COPYING\.txt",
        r"ttrace_torch-[^/]*\.dist-info/sboms/ttrace\.cdx\.json",
        r"ttrace_torch-[^/]*\.data/scripts/ttrace",
        r"ttrace_torch-[^/]*\.data/data/lib/libttrace\.so",
        r"ttrace_torch-[^/]*\.data/data/include/ttrace\.h",
    ):
        if not any(re.fullmatch(wanted, name) for name in names):
            faults.append(f"nothing in it is {wanted}")
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--glibc", default="2.28")
    parser.add_argument("wheel", type=Path)
    arguments = parser.parse_args()
    print(f"{arguments.wheel.name}: {arguments.wheel.stat().st_size / 1e6:.1f} MB")
    with zipfile.ZipFile(arguments.wheel) as wheel, tempfile.TemporaryDirectory() as folder:
        names = wheel.namelist()
        faults = faults_of_files(names)
        for name in names:
            if name.endswith(("/scripts/ttrace", ".so")):
                path = Path(wheel.extract(name, folder))
                faults += faults_of_binary(Path(name).name, path, arguments.glibc)
    for fault in faults:
        print(f"{arguments.wheel.name}: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
