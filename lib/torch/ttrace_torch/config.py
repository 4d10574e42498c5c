"""What the environment says: TTRACE_OUT and the other variables, which arguments overrule."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ttrace_torch.base.int_ranges import numbers_of
from ttrace_torch.capture.selection import FirstStep, Steps, TheseSteps
from ttrace_torch.errors import TraceError
from ttrace_torch.perturb.perturber import Disturb
from ttrace_torch.write.background import parse_memory

OUT = "TTRACE_OUT"
STEPS = "TTRACE_STEPS"
RANKS = "TTRACE_RANKS"
KINDS = "TTRACE_KINDS"
MODULES = "TTRACE_MODULES"
NOISE = "TTRACE_NOISE"
NOISE_AT = "TTRACE_NOISE_AT"
COMPRESS = "TTRACE_COMPRESS"
MEMORY = "TTRACE_MEMORY"


@dataclass(frozen=True)
class Settings:
    """What is recorded and where, with what the variables say put in where an argument is None.

    steps, ranks: numbers, or a text such as "0,5,10-12".
    memory: bytes, or a text such as "4GiB".
    """

    out: str | Path | None = None
    steps: str | int | Iterable[int] | None = None
    ranks: str | int | Iterable[int] | None = None
    kinds: Iterable[str] | None = None
    modules: Iterable[str] | None = None
    disturb: Disturb | None = None
    compress: int | None = None
    memory: str | int | None = None

    def chosen_steps(self, named: bool) -> Steps:
        """Which steps are recorded. named: the script itself says where to."""
        if self.steps is not None:
            return TheseSteps(numbers_of(self.steps, "steps="))
        return Steps() if named else FirstStep(str(self.out))

    def chosen_ranks(self) -> list[int] | None:
        """Which ranks record; None for all."""
        return None if self.ranks is None else numbers_of(self.ranks, "ranks=").listed()

    def bytes_waiting(self) -> int | None:
        """How many bytes may wait to be written; None where nothing was said."""
        return None if self.memory is None else parse_memory(self.memory, "memory=")


def active(out: str | Path | None) -> bool:
    """Whether anything is to be recorded: the script or the environment says where to."""
    return out is not None or bool(os.environ.get(OUT))


def settled(given: Settings, variables: Mapping[str, str] | None = None) -> Settings:
    """`given` with the environment's variables where it says nothing; an empty one says nothing.

    Throws TraceError for a variable that cannot be understood.
    """
    said = {
        name: value.strip()
        for name, value in (os.environ if variables is None else variables).items()
        if name.startswith("TTRACE_") and value.strip()
    }
    # A text is checked here, so that the message names the variable.
    if given.steps is None and STEPS in said:
        numbers_of(said[STEPS], f"{STEPS}=")
    if given.ranks is None and RANKS in said:
        numbers_of(said[RANKS], f"{RANKS}=")
    if given.memory is None and MEMORY in said:
        parse_memory(said[MEMORY], f"{MEMORY}=")
    return Settings(
        given.out if given.out is not None else said.get(OUT),
        given.steps if given.steps is not None else said.get(STEPS),
        given.ranks if given.ranks is not None else said.get(RANKS),
        given.kinds if given.kinds is not None else _list(said.get(KINDS)),
        given.modules if given.modules is not None else _list(said.get(MODULES)),
        given.disturb if given.disturb is not None else _noise(said),
        given.compress if given.compress is not None else _integer(said, COMPRESS),
        given.memory if given.memory is not None else said.get(MEMORY),
    )


def _list(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",")]


def _integer(said: Mapping[str, str], name: str) -> int | None:
    if name not in said:
        return None
    try:
        return int(said[name])
    except ValueError:
        raise TraceError(f"{name}={said[name]!r} is no integer") from None


def _noise(said: Mapping[str, str]) -> Disturb | None:
    seed = _integer(said, NOISE)
    if seed is None:
        if NOISE_AT in said:
            raise TraceError(f"{NOISE_AT}={said[NOISE_AT]!r} needs {NOISE}, the seed of the noise")
        return None
    return Disturb(seed, at=said.get(NOISE_AT))
