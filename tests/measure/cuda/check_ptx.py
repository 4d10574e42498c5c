#!/usr/bin/env python3
"""Checks what nvcc makes of the kernels: results must have the bits of the CPU, and no kernel may
spill registers.

Usage: check_ptx.py NVCC SOURCE INCLUDE ARCHITECTURES OPTIONS...

Fused multiply-adds of floating-point numbers round once where the CPU rounds twice. They may appear
in the kernels of NARROW types only, whose products are exact. Exits 77 (skipped) without nvcc.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77
# The kernels of stored values of these types may fuse Σ r², Σ c² and Σ r·c: products of values of
# at most 24 bits have 48 and are exact.
# So may the products of matrices whose elements are all of binary32 (template argument true).
EXACT_PRODUCTS = "8productsILb1E"
NARROW = ("StoredF32", "StoredF16", "StoredBF16", "StoredF8E4M3", "StoredF8E5M2")
ENTRY = re.compile(r"^\s*(?:\.visible\s+|\.weak\s+)?\.entry\s+(\w+)", re.MULTILINE)
FUSED = re.compile(r"\b(fma|mad)\.(?:rn|rz|rm|rp)(?:\.\w+)*\.(f16|f32|f64|bf16)\w*")
INEXACT = re.compile(r"\b(?:div\.(?:approx|full)|sqrt\.approx|rsqrt|rcp\.approx|\w+\.ftz)\S*")
SPILL = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
COMPILING = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")


def may_fuse(kernel: str) -> bool:
    narrow = "stored_tiles" in kernel and any(name in kernel for name in NARROW)
    return narrow or EXACT_PRODUCTS in kernel


def problems_of_ptx(ptx: str) -> list[str]:
    parts = ENTRY.split(ptx)
    found = []
    kernels = [(parts[i], parts[i + 1]) for i in range(1, len(parts) - 1, 2)]
    if len(kernels) < 10:
        found.append(f"only {len(kernels)} kernels found: is this their PTX?")
    fusing = 0
    for name, body in kernels:
        fused = [match.group(0) for match in FUSED.finditer(body)]
        fusing += bool(fused)
        if fused and not may_fuse(name):
            found.append(f"{name}: {len(fused)} fused operations, such as {fused[0]}")
        if any(not operation.startswith("fma.rn.f64") for operation in fused):
            found.append(f"{name}: fuses other operations than fma.rn.f64: {sorted(set(fused))}")
        for match in INEXACT.finditer(body):
            found.append(f"{name}: {match.group(0)} does not round as the CPU does")
    meant = len(NARROW) + 1
    if fusing != meant:
        found.append(f"{fusing} kernels fuse exact products, {meant} are meant to")
    return found


def problems_of_assembly(log: str) -> list[str]:
    found = []
    name = ""
    for line in log.splitlines():
        if match := COMPILING.search(line):
            name = f"{match.group(1)} for {match.group(2)}"
        if match := SPILL.search(line):
            if (match.group(1), match.group(2)) != ("0", "0"):
                found.append(f"{name}: {match.group(0)}")
    if not name:
        found.append("ptxas says nothing of any kernel")
    return found


def run(*command: str | Path) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def main() -> int:
    nvcc, source, include, architectures, *options = sys.argv[1:]
    if shutil.which(nvcc) is None:
        print("skipped: there is no nvcc on this machine, so no PTX to look at")
        return SKIPPED
    found = []
    with tempfile.TemporaryDirectory() as folder:
        ptx = Path(folder) / "kernels.ptx"
        names = architectures.split(",")
        run(nvcc, *options, "-I", include, f"-arch=compute_{names[0]}", "-ptx", source, "-o", ptx)
        found += problems_of_ptx(ptx.read_text())
        for name in names:
            cubin = Path(folder) / f"{name}.cubin"
            log = run(nvcc, f"-arch=sm_{name}", "-Xptxas", "-v", "-cubin", ptx, "-o", cubin)
            found += problems_of_assembly(log)
    for problem in found:
        print(problem)
    print(f"{len(found)} problems in the kernels for {architectures}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
