#!/usr/bin/env python3
"""A check that cannot fail is no check: plants violations in a copy of lib/ and looks for them."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from check_layers import violations

PLANTED = {
    "lib/tensor/box.cpp": '#include "comparison/pairing.h"\n',
    "lib/layout/plan.cpp": "#include <hdf5.h>\n",
    "lib/engine/lint_trace.cpp": '#include "trace/hdf5/trace_files.h"\n',
    "lib/trace/safetensors/header.cpp": '#include "trace/hdf5/trace_files.h"\n',
    "lib/layout/mesh.cpp": '#include "trace/open/open_trace.h"\n',
    "lib/localize/phase.cpp": "#include <nlohmann/json.hpp>\n",
    "lib/measure/grid.h": '#include "trace/key.h"\n',
    "lib/measure/cuda/chunk.cpp": "#include <cuda_runtime_api.h>\n",
    "lib/measure/cuda/kernels/tiles.h": '#include "trace/key.h"\n',
    "lib/specification/primitives/value.h": '#include "specification/evaluate/bound.h"\n',
    "lib/localize/causes/trial.h": '#include "localize/dataflow.h"\n',
    "lib/base/functions/power.cpp": '#include "base/text.h"\n',
    "lib/engine/lint_trace.h": '#include "engine/doctor/settings.h"\n',
    "tests/measure/cuda/fibers.cpp": "#include <cuda_runtime_api.h>\n",
}


def main() -> int:
    root = Path(__file__).resolve().parents[2]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for top in ("apps", "lib", "tests"):
            shutil.copytree(
                root / top, copy / top, ignore=shutil.ignore_patterns("__pycache__", "*.py")
            )
        clean = violations(copy)
        for name, include in PLANTED.items():
            path = copy / name
            path.write_text(include + path.read_text())
        cmake = copy / "lib/base/CMakeLists.txt"
        cmake.write_text(cmake.read_text().replace("PACKAGES", "DEPENDS engine PACKAGES"))
        found = violations(copy)
    missed = [name for name in PLANTED if not any(line.startswith(name) for line in found)]
    if not any(line.startswith("lib/base: may not link engine") for line in found):
        missed.append("lib/base/CMakeLists.txt")
    print(
        f"{len(clean)} violations before, {len(found)} after planting, missed: {missed or 'none'}"
    )
    return 1 if clean or missed else 0


if __name__ == "__main__":
    sys.exit(main())
