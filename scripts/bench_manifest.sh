#!/usr/bin/env bash
# How long `ttrace lint --manifest-only` takes on the manifest of a large run, and how much memory.
# Usage: scripts/bench_manifest.sh [build folder]
set -euo pipefail
cd "$(dirname "$0")/.."
ttrace=$(realpath "${1:-build}")/ttrace
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

python3 - "$folder" <<'PYTHON'
"""Runs of 64, 512 and 4,096 ranks with 10,000 tensors of the kinds that a Megatron job has."""
import json
import sys
from pathlib import Path

TENSORS = 10_000


def manifest(ranks: int) -> dict:
    pp, tp, cp = 4, 8, 2
    dp = ranks // (pp * tp * cp)
    mesh = {"pp": pp, "dp": dp, "cp": cp, "tp": tp}
    expert = {"pp": pp, "edp": dp * cp // 2, "ep": 4, "etp": 4}
    hidden = 4096

    def axes(sizes: dict[str, int]) -> dict:
        return {"axes": [{"name": n, "size": s} for n, s in sizes.items()]}

    def entry(number: int) -> dict:
        stage = number * pp // TENSORS
        base = {"name": f"layers.{number}.x", "step": 0, "dtype": "bfloat16", "held_at": {"pp": [stage]}}
        step = 3 * hidden * hidden // tp // dp
        forms = [
            {"kind": "output", "microbatch": 0, "shape": [8192, 1, hidden],
             "placements": {"cp": {"shard": 0, "order": "zigzag"}, "tp": {"shard": 0}, "dp": {"only": 0}}},
            {"kind": "param", "shape": [3 * hidden, hidden],
             "placements": {"tp": {"shard": 0, "segments": [hidden, hidden, hidden]}}},
            {"kind": "main_grad", "shape": [3 * hidden, hidden], "dtype": "float32",
             "placements": {"tp": {"shard": 0}, "dp": {"flat": [[i * step, (i + 1) * step] for i in range(dp)]}}},
            {"kind": "param_grad", "shape": [hidden],
             "placements": {"tp": {"partial": "sum"}, "cp": {"partial": "sum"}, "dp": {"partial": "sum"}}},
            {"kind": "param", "mesh": "expert", "shape": [64 * 2 * 1024, hidden],
             "placements": {"ep": {"shard": 0}, "etp": {"shard": 0, "segments": [1024, 1024], "repeat": 16}}},
            {"kind": "param", "shape": [100_003, hidden],
             "placements": {"dp": {"shard": 0, "stride": tp}, "tp": {"shard": 0}}},
        ]
        return {**base, **forms[number % len(forms)]}

    return {"schema": "ttrace.manifest/2", "meshes": {"": axes(mesh), "expert": axes(expert)},
            "tensors": [entry(n) for n in range(TENSORS)]}


for ranks in (64, 512, 4096):
    folder = Path(sys.argv[1]) / str(ranks)
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps(manifest(ranks)))
PYTHON

printf '%8s %12s %10s %12s  %s\n' ranks manifest seconds 'peak memory' answer
for ranks in 64 512 4096; do
  python3 - "$ttrace" "$folder/$ranks" "$ranks" <<'PYTHON'
import os
import resource
import subprocess
import sys
import time

ttrace, run, ranks = sys.argv[1:]
times = []
for _ in range(5):
    start = time.perf_counter()
    done = subprocess.run([ttrace, "lint", "--manifest-only", run], capture_output=True, text=True)
    times.append(time.perf_counter() - start)
assert done.returncode == 0, done.stdout + done.stderr
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
size = os.path.getsize(run + "/manifest.json") / 1e6
print(f"{ranks:>8} {size:9.1f} MB {sorted(times)[2]:9.2f}  {peak:8.0f} MiB  {done.stdout.splitlines()[0]}")
PYTHON
done
