#!/usr/bin/env python3
"""Compiles every header of lib/ and apps/ by itself, and fails if one lacks an include.

A build in batches would hide that. The standard library is precompiled once, which makes this twice
as fast; check_sources.py checks the includes of its headers. Needs a configured build folder:
its compile_commands.json has the compiler and where packages lie.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

STANDARD = re.compile(r"^#include <[a-z_]+>", re.MULTILINE)


def compiler_and_packages(build: Path) -> list[str]:
    """The compiler of the build and the folders of packages that any source includes from."""
    compiler = ""
    packages: dict[str, None] = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        if not entry["file"].endswith((".cpp", ".cxx")):
            continue
        compiler = next(word for word in words if Path(word).name != "ccache")
        for i, word in enumerate(words):
            if word == "-isystem":
                packages[words[i + 1]] = None
    if not compiler:
        sys.exit(f"{build}/compile_commands.json has no C++ source: configure the build first")
    return [compiler, *(word for folder in packages for word in ("-isystem", folder))]


def problem_of(header: str, command: list[str]) -> str:
    """What the compiler says of a source that is this header alone; empty if it compiles."""
    done = subprocess.run(
        [*command, "-fsyntax-only", "-x", "c++", "-"],
        input=f'#include "{header}"\n',
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if done.returncode == 0 else done.stderr or f"{command[0]} failed"


def problems(root: Path, build: Path, headers: list[str]) -> list[str]:
    includes = [f"-I{root / folder}" for folder in ("lib", "apps/ttrace", "apps/libttrace")]
    command = [*compiler_and_packages(build), "-std=c++20", *includes]
    with tempfile.TemporaryDirectory() as folder:
        standard = Path(folder) / "standard.h"
        names = {name for header in headers for name in STANDARD.findall(Path(header).read_text())}
        standard.write_text("\n".join(sorted(names)) + "\n")
        subprocess.run(
            [*command, "-x", "c++-header", str(standard), "-o", f"{standard}.gch"], check=True
        )
        command += ["-include", str(standard)]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            found = pool.map(lambda header: problem_of(header, command), headers)
            return [problem for problem in found if problem]


def main() -> int:
    root = Path(__file__).resolve().parents[2]
    build = Path(sys.argv[1])
    headers = [str(path) for top in ("lib", "apps") for path in sorted((root / top).rglob("*.h"))]
    found = problems(root, build, headers)
    lacking = problems(root, build, [str(root / "tests/architecture/lacks_include.h")])
    for problem in found:
        print(problem)
    print(f"{len(headers)} headers, {len(found)} do not compile alone")
    if not lacking:
        print("tests/architecture/lacks_include.h compiled, so this check checks nothing")
    return 1 if found or not lacking or len(headers) < 50 else 0


if __name__ == "__main__":
    sys.exit(main())
