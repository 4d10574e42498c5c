"""Trains cases with Megatron-core, as `launching.py` says.

A case has `parallel`, arguments for Megatron's groups, and what `train_gpt.main` reads.
"""

from __future__ import annotations

import os

import launching
import megatron_on_cpu

megatron_on_cpu.install()

import train_gpt  # noqa: E402
from faults import FAULTS  # noqa: E402
from megatron.core import parallel_state  # noqa: E402


def train(case, out):
    if case.get("specified"):
        os.environ["TTRACE_SPECIFICATION"] = str(out.with_suffix(".json"))
    parallel_state.initialize_model_parallel(**case.get("parallel", {}))
    try:
        with FAULTS[case.get("fault", "none")]():
            train_gpt.main(case, out)
    finally:
        os.environ.pop("TTRACE_SPECIFICATION", None)
        parallel_state.destroy_model_parallel()
        launching.end_groups()


if __name__ == "__main__":
    launching.launch(launching.begin_gloo, train)
