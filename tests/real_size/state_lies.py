"""Edits of traces that let a faulty run's state look innocent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
from power.editing import dataset_of, files_of, manifest_of

from real_size.state_cases import GROUPS, Group


def _sets(trace: Path, kind: str, part: str, step: int) -> list[str]:
    return [
        dataset_of(entry)
        for entry in manifest_of(trace)["tensors"]
        if (entry["kind"], entry["step"]) == (kind, step) and part in entry["name"]
    ]


def _moment_of_another(trace: Path) -> None:
    """exp_avg of one parameter becomes another's, with the norm that it had."""
    moments = _sets(trace, "optimizer_state", "mlp.c_fc.weight.exp_avg", 1)
    one, other = [name for name in moments if name.endswith("exp_avg")][:2]
    for path in files_of(trace):
        with h5py.File(path, "r+") as file:
            mine, theirs = file[one][()], file[other][()]
            file[one][...] = theirs * (np.linalg.norm(mine) / np.linalg.norm(theirs))


def _average_that_moved(trace: Path) -> None:
    """The average after each step is that before it, and noise as long as a tenth of the update."""
    for step in (0, 1):
        random = np.random.default_rng(step)
        for after in _sets(trace, "buffer_after_step", "average.", step):
            name = after.split("/", 2)[-1].removeprefix("average.")
            noise = None
            for path in files_of(trace):
                with h5py.File(path, "r+") as file:
                    base = f"step_{step:06}"
                    before = file[f"{base}/buffer/average.{name}"][()]
                    moved = 0.1 * (file[f"{base}/param_after_step/{name}"][()] - before)
                    if noise is None:
                        noise = random.standard_normal(before.shape)
                        noise *= np.linalg.norm(moved) / np.linalg.norm(noise)
                    file[after][...] = (before + noise).astype(before.dtype)


def _exchanged(trace: Path) -> None:
    """The experts' biases before and after step 0 are exchanged."""
    for after in _sets(trace, "buffer_after_step", "e_score_correction_bias", 0):
        before = after.replace("buffer_after_step", "buffer")
        for path in files_of(trace):
            with h5py.File(path, "r+") as file:
                one, other = file[before][()], file[after][()]
                file[before][...], file[after][...] = other, one


@dataclass(frozen=True)
class Lie:
    """fault: what the run had, whose trace is edited."""

    name: str
    says: str
    group: Group
    layout: str
    fault: str
    edit: Callable[[Path], None]


LIES = (
    Lie(
        "moment",
        "an exp_avg is another parameter's, of the right norm",
        GROUPS["adamw"],
        "ddp",
        "",
        _moment_of_another,
    ),
    Lie(
        "average",
        "an average that never moved, after values with noise of the right norm",
        GROUPS["adamw"],
        "ddp",
        "never_averaged",
        _average_that_moved,
    ),
    Lie(
        "exchanged",
        "expert biases before and after step 0 exchanged",
        GROUPS["experts"],
        "ddp",
        "",
        _exchanged,
    ),
)
