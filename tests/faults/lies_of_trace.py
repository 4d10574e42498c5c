"""Lies of a trace: what a run leaves out, or claims of what it has recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lies_of_specification import Lie, Wanted
from small_step import Key, Run


def drop(wanted: Wanted) -> Lie:
    return lambda run: run.drop(wanted)


def several_microbatches(wanted: Wanted) -> Lie:
    """Marks tensors as made of several micro-batches, for which a specification has no formula."""

    how = {"loss": {"mean": [0, 1]}, "param_grad": {"sum": [0, 1]}}

    def lie(run: Run) -> None:
        for kind, name in run.values:
            if wanted(kind, name):
                together = how.get(kind, {"shard": 0, "of": [0, 1]})
                run.entries[kind, name] = {"microbatch": None, "microbatches": together}

    return lie


def computed_in(dtype: str, *keys: Key) -> Lie:
    def lie(run: Run) -> None:
        for key in keys:
            run.entries[key] = {"computed_in": dtype}

    return lie


def renamed(wanted: Wanted) -> Lie:
    def lie(run: Run) -> None:
        run.values = {
            (kind, f"other.{name}") if wanted(kind, name) else (kind, name): value
            for (kind, name), value in run.values.items()
        }

    return lie


def optimizer(change: Callable[[dict[str, Any]], object]) -> Lie:
    """Of the parameter that nothing uses."""
    return lambda run: change(run.manifest["optimizer"][1])
