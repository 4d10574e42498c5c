"""The environment variables that ttrace knows, and a check for those that it does not."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

PREFIX = "TTRACE_"
OUT = "TTRACE_OUT"
STEPS = "TTRACE_STEPS"
RANKS = "TTRACE_RANKS"
KINDS = "TTRACE_KINDS"
MODULES = "TTRACE_MODULES"
NOISE = "TTRACE_NOISE"
NOISE_AT = "TTRACE_NOISE_AT"
COMPRESS = "TTRACE_COMPRESS"
MEMORY = "TTRACE_MEMORY"
PLAN = "TTRACE_PLAN"
SPECIFICATION = "TTRACE_SPECIFICATION"
# The file by which the collector tells `ttrace run` that the trace is complete.
DONE = "TTRACE_DONE"

OF_TRACE = (
    OUT,
    STEPS,
    RANKS,
    KINDS,
    MODULES,
    NOISE,
    NOISE_AT,
    COMPRESS,
    MEMORY,
    PLAN,
    SPECIFICATION,
    DONE,
)
# Variables of compare_tensors, of the command `ttrace`, and of the repository's scripts and tests.
OF_OTHERS = (
    "TTRACE_LIBRARY",
    "TTRACE_CUBLAS",
    "TTRACE_CUDA_MODULE",
    "TTRACE_BUILD_DIR",
    "TTRACE_CUDA_VENV",
    "TTRACE_FRAMEWORKS_VENV",
    "TTRACE_GPU_BUILD_DIR",
    "TTRACE_LONG",
    "TTRACE_RANDOM_TRACES",
    "TTRACE_SEED",
    "TTRACE_SYNTH",
    "TTRACE_TABLE",
    "TTRACE_JOBS",
    "TTRACE_VENV",
    "TTRACE_WATCH_HEADLINE",
    "TTRACE_WATCH_REPORT",
    "TTRACE_WATCH_RUN",
    "TTRACE_WATCH_STEP",
    "TTRACE_WITHOUT_CLI",
    "TTRACE_ZIG_WRAPPERS",
)


def settings_in(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables of ttrace that are set; an empty one counts as unset."""
    return {
        name: value.strip()
        for name, value in variables.items()
        if name.startswith(PREFIX) and value.strip()
    }


def unknown_in(variables: Mapping[str, str]) -> list[str]:
    """A sentence for each variable of ttrace's that no part of it reads, with the nearest name."""
    known = [*OF_TRACE, *OF_OTHERS]
    return [
        f"{name} is no variable of ttrace and changes nothing; did you mean "
        f"{difflib.get_close_matches(name, known, n=1, cutoff=0.0)[0]}?"
        for name in sorted(settings_in(variables))
        if name not in known
    ]
