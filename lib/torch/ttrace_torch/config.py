"""Configuration of a tracer: the arguments of `trace`, completed by the environment variables."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Callable

from ttrace_torch.base.int_ranges import int_ranges
from ttrace_torch.capture.selection import FirstStep, Steps, TheseSteps
from ttrace_torch.errors import TraceError
from ttrace_torch.layout.layouts import Layout
from ttrace_torch.layout.mesh import Mesh
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
PLAN = "TTRACE_PLAN"
SPECIFICATION = "TTRACE_SPECIFICATION"


@dataclass(frozen=True)
class ModelConfig:
    """How the model is distributed: the arguments that `trace` and `consistent_init` share.

    The fields have the names, types and meanings of the keyword arguments.
    """

    mesh: Mesh | None = None
    rank: int | None = None
    layouts: tuple[Layout, ...] = ()
    meshes: Mapping[str, Mesh] | None = None
    tp_axis: str = "tp"
    framework: str = "auto"
    rename: Callable[..., str] | None = None


@dataclass(frozen=True)
class TraceConfig:
    """What to record, where, and under which changes of the run.

    The fields have the names, types and meanings of `trace`'s keyword arguments. None means that
    the user gave no value: `with_environment` then takes the environment variable.

    steps, ranks: ints, or a text such as "0,5,10-12".
    memory: bytes, or a text such as "4GiB".
    """

    out: str | Path | None = None
    model: ModelConfig = field(default_factory=ModelConfig)
    perturb: Disturb | None = None
    kinds: Iterable[str] | None = None
    modules: Iterable[str] | None = None
    run: Mapping[str, Any] | None = None
    compress: int | None = None
    plan: str | Path | None = None
    steps: str | int | Iterable[int] | None = None
    ranks: str | int | Iterable[int] | None = None
    memory: str | int | None = None
    specification: str | Path | None = None
    interleaved: bool | None = None
    scaler: Any = None

    def with_environment(self, variables: Mapping[str, str] | None = None) -> TraceConfig:
        """Returns a copy with environment variables in the place of fields that are None.

        variables: `os.environ` by default. An empty variable counts as unset.
        Throws TraceError for a variable that does not parse; the message names the variable.
        """
        variables = os.environ if variables is None else variables
        said = {
            name: value.strip()
            for name, value in variables.items()
            if name.startswith("TTRACE_") and value.strip()
        }
        # Parsed here for a message that names the variable, and again where it is used.
        if self.steps is None and STEPS in said:
            int_ranges(said[STEPS], f"{STEPS}=")
        if self.ranks is None and RANKS in said:
            int_ranges(said[RANKS], f"{RANKS}=")
        if self.memory is None and MEMORY in said:
            parse_memory(said[MEMORY], f"{MEMORY}=")
        return replace(
            self,
            out=self.out if self.out is not None else said.get(OUT),
            steps=self.steps if self.steps is not None else said.get(STEPS),
            ranks=self.ranks if self.ranks is not None else said.get(RANKS),
            kinds=_names(self.kinds, said.get(KINDS)),
            modules=_names(self.modules, said.get(MODULES)),
            perturb=self.perturb if self.perturb is not None else _noise(said),
            compress=self.compress if self.compress is not None else _integer(said, COMPRESS),
            memory=self.memory if self.memory is not None else said.get(MEMORY),
            plan=self.plan if self.plan is not None else variables.get(PLAN) or None,
            specification=self.specification or variables.get(SPECIFICATION) or None,
        )

    def chosen_steps(self, path_given: bool) -> Steps:
        """The steps to record.

        path_given: whether the script gave `out`. Without `out` and `steps`, only the first step
            is recorded.
        """
        if self.steps is not None:
            return TheseSteps(int_ranges(self.steps, "steps="))
        if self.out is None:
            # For the specification alone.
            return FirstStep(str(self.specification), announces=False)
        return Steps() if path_given else FirstStep(str(self.out))

    def chosen_ranks(self) -> list[int] | None:
        """The ranks that record; None for all ranks."""
        return None if self.ranks is None else int_ranges(self.ranks, "ranks=").listed()

    def memory_bytes(self) -> int | None:
        """The number of bytes that may wait to be written; None for the default."""
        return None if self.memory is None else parse_memory(self.memory, "memory=")


def is_active(out: str | Path | None, specification: str | Path | None = None) -> bool:
    """Whether anything is recorded: the script, TTRACE_OUT or TTRACE_SPECIFICATION gives a path."""
    given = out is not None or specification is not None
    return given or bool(os.environ.get(OUT) or os.environ.get(SPECIFICATION))


def one_of_disturb_and_perturb(disturb: Disturb | None, perturb: Disturb | None) -> Disturb | None:
    """Returns the argument that was given. Throws TraceError if both were."""
    if disturb is not None and perturb is not None:
        raise TraceError("disturb= and perturb= are two names of one argument; give only one")
    return perturb if disturb is None else disturb


def _names(given: Iterable[str] | None, said: str | None) -> Iterable[str] | None:
    """The names that the script gave, one by one or as a text like the variable's, else those."""
    if isinstance(given, str):
        return _list(given)
    return given if given is not None else _list(said)


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
