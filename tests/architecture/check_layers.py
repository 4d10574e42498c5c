#!/usr/bin/env python3
"""Checks that the code keeps to the house: who may include whom, and which package lives where.

A module may include its own headers and those of the modules in its link list (DEPENDS of
ttrace_module in its CMakeLists.txt); link lists point up the fixed order only; so do folders inside
a module; third-party headers stay behind their fences; the top level holds what it should. Exits 1
with one line per violation.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

LIB = Path(__file__).resolve().parents[2] / "lib"
MODULE = re.compile(r"ttrace_module\((\w+)\s+(.*?)\)", re.DOTALL)


def link_lists(lib: Path) -> dict[str, list[str]]:
    lists = {}
    for cmake in sorted(lib.rglob("CMakeLists.txt")):
        for name, body in MODULE.findall(cmake.read_text()):
            depends = re.search(r"DEPENDS\s+(.*?)(?=PACKAGES|SOURCES|$)", body, re.DOTALL)
            lists[name] = depends.group(1).split() if depends else []
    return lists


# The kinds of files that traces lie in: what lib/trace/open links.
STORAGES = [room for room in link_lists(LIB)["open"] if room not in ("base", "tensor", "trace")]
ORDER = [
    "base",
    "tensor",
    "trace",
    *STORAGES,
    "open",
    "layout",
    "measure",
    "judge",
    "specification",
    "answer",
    "comparison",
    "localize",
    "optimizer",
    "routing",
    "audit",
    "mapping",
    "report",
    "engine",
]
# The folders of lib/trace that are rooms of their own. Only apps and tests link them.
ADAPTERS = {*STORAGES, "open"}
TOP_LEVEL = {
    "CMakeLists.txt",
    "LICENSE",
    "README.md",
    "apps",
    "cmake",
    "lib",
    "schemas",
    "scripts",
    "testdata",
    "tests",
}
# Folders of one module, from the bottom up: a folder includes those before it alone. Others are
# drawers of one room, which may include each other.
FOLDERS = (
    ("base/functions", "base"),
    ("measure/optimizer", "measure", "measure/cuda"),
    ("measure/optimizer", "measure/cpu", "measure/cuda"),
    ("measure/cuda/kernels", "measure/cuda"),
    ("specification/primitives", "specification", "specification/evaluate"),
    ("localize/causes", "localize"),
    ("engine", "engine/doctor"),
    ("trace", "trace/hdf5"),
    ("trace/range", "trace/hdf5"),
    ("trace/range", "trace/safetensors"),
)
# Header prefix -> pattern of the only files (below the repository) that may include it.
FENCES = {
    "hdf5.h": r"lib/trace/hdf5/.*",
    "nlohmann/": r"lib/.*_json\.(cpp|h)|tests/.*",
    "spdlog/": r"lib/base/log\.cpp",
    "CLI/": r"(apps|tests/tools)/.*",
    "catch2/": r"tests/.*",
    "benchmark/": r"tests/bench/.*",
    "cuda": r"lib/measure/cuda/(kernels\.(h|cu)|module_table\.cpp|cublas\.cpp)",
    "mpi.h": r"apps/ttrace/mpi/.*",
    "cublas": r"lib/measure/cuda/cublas\.cpp",
}
LONGEST_FILE = 500
# The backends must build without traces and packages: modules they may reach.
ARITHMETIC = ("lib/measure/cpu", "lib/measure/cuda")
ARITHMETIC_REACHES = {"base", "tensor", "measure"}

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


def module_of(path: Path, lib: Path) -> str:
    parts = path.relative_to(lib).parts
    return parts[1] if parts[0] == "trace" and parts[1] in ADAPTERS else parts[0]


def module_of_include(include: str) -> str | None:
    parts = include.split("/")
    if parts[0] == "trace" and parts[1] in ADAPTERS:
        return parts[1]
    return parts[0] if len(parts) > 1 and parts[0] in ORDER else None


def is_above(include: str, own: str) -> bool:
    """Whether a file in the folder `own` includes one of a folder that stands above it."""
    folder = include.rpartition("/")[0]
    return any(
        folder in order and own in order and order.index(folder) > order.index(own)
        for order in FOLDERS
    )


def violations(root: Path) -> list[str]:
    lib = root / "lib"
    links = link_lists(lib)
    found = []
    for folder in sorted({folder for order in FOLDERS for folder in order}):
        if not (lib / folder).is_dir():
            found.append(f"lib/{folder} is in the order of folders, and not there")
    for name in sorted(set(links) ^ set(ORDER)):
        found.append(f"lib: module {name} is not in both the link lists and the order")
    for name, depends in links.items():
        for dependency in depends:
            is_adapter = dependency in ADAPTERS and (name != "open" or dependency not in STORAGES)
            if ORDER.index(dependency) >= ORDER.index(name) or is_adapter:
                found.append(f"lib/{name}: may not link {dependency}")

    sources = [
        path
        for top in ("apps", "lib", "tests")
        for suffix in ("*.h", "*.cpp", "*.cu", "*.cuh")
        for path in sorted((root / top).rglob(suffix))
    ]
    if len(sources) < 50:
        found.append(f"only {len(sources)} source files found: is {root} the repository?")
    for path in sources:
        relative = path.relative_to(root).as_posix()
        text = path.read_text()
        if not relative.startswith("tests/") and text.count("\n") > LONGEST_FILE:
            found.append(f"{relative}: {text.count(chr(10))} lines, split it before {LONGEST_FILE}")
        for include in INCLUDE.findall(text):
            for prefix, allowed in FENCES.items():
                if include.startswith(prefix) and not re.fullmatch(allowed, relative):
                    found.append(f"{relative}: may not include <{include}>")
            own_folder = path.parent.relative_to(root).as_posix().removeprefix("lib/")
            if relative.startswith("lib/") and is_above(include, own_folder):
                found.append(f"{relative}: includes {include}, whose folder stands above its own")
            target = module_of_include(include)
            if target is None or not relative.startswith("lib/"):
                continue
            own = module_of(path, lib)
            if target != own and target not in links.get(own, []):
                found.append(
                    f"{relative}: includes {include}, but lib/{own} does not link {target}"
                )
    return found + arithmetic_reaching_out(root) + stray_top_level(root)


def arithmetic_reaching_out(root: Path) -> list[str]:
    """What the backends include, over however many headers, and should not."""
    lib = root / "lib"
    found = []
    seen = set()
    left = [path for folder in ARITHMETIC for path in sorted((root / folder).rglob("*.*"))]
    while left:
        path = left.pop()
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        relative = path.relative_to(root).as_posix()
        for include in INCLUDE.findall(path.read_text()):
            module = module_of_include(include)
            fenced = any(
                include.startswith(prefix)
                and not (prefix in ("cuda", "cublas") and re.fullmatch(allowed, relative))
                for prefix, allowed in FENCES.items()
            )
            if fenced or (module is not None and module not in ARITHMETIC_REACHES):
                found.append(f"{relative}: a backend needs it, so it may not include {include}")
            left.append(lib / include)
    return found


def stray_top_level(root: Path) -> list[str]:
    """What git would take at the top level beyond the agreed names; nothing without git."""
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=False,
    )
    names = {line.split("/")[0] for line in listed.stdout.splitlines()}
    return [
        f"{name}: does not belong at the top level"
        for name in sorted(names - TOP_LEVEL)
        if not name.startswith(".")
    ]


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2]
    found = violations(root)
    for line in found:
        print(line)
    print(f"{len(found)} violations of the layering")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
