#!/usr/bin/env bash
# What the collector costs a training step on the CPU: untraced, attached, traced.
# Usage: scripts/bench_collector.sh [rounds]; PYTHON names the interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHONPATH=lib/torch OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} \
  exec "${PYTHON:-python3}" scripts/bench_collector.py "${1:-15}"
