"""Each run of the trainer that the tests look at happens once."""

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from gallery.agreement import Agreement
from gallery.together import trained

REFERENCE = "one process"
LAYOUTS = {
    REFERENCE: (),
    "tp2": ("--tp", "2"),
    "tp2 sp": ("--tp", "2", "--sp"),
    "tp4 sp": ("--tp", "4", "--sp"),
}
# Every norm's parameters in a model of two layers.
NORMS = {
    f"{norm}.{leaf}"
    for norm in (
        "layers.0.norm1",
        "layers.0.norm2",
        "layers.1.norm1",
        "layers.1.norm2",
        "final_norm",
    )
    for leaf in ("weight", "bias")
}


@dataclass(frozen=True)
class Run:
    steps: list[dict[str, float]]
    trace: Path


Runner = Callable[..., Run]


@pytest.fixture(scope="session")
def agreement(tmp_path_factory: pytest.TempPathFactory) -> Agreement:
    base = tmp_path_factory.getbasetemp()
    # Of several processes of pytest-xdist each has a folder of its own in that of all.
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "references"
    shared.mkdir(exist_ok=True)
    return Agreement(lambda: tmp_path_factory.mktemp("run"), shared)


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """`run(layout, *options)`: a traced run that must succeed."""

    @functools.cache
    def once(layout: str, *options: str) -> Run:
        folder = tmp_path_factory.mktemp("trace")
        trace = folder / ("run" if LAYOUTS[layout] else "ref.h5")
        done = trained(*LAYOUTS[layout], *options, "--trace", str(trace))
        return Run(done.steps, trace)

    return once
