"""Configuration of a tracer: the arguments of `trace`, completed by the environment variables."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Callable

from ttrace_torch import variables
from ttrace_torch.base.int_ranges import int_ranges
from ttrace_torch.capture.selection import FirstSteps, Steps, TheseSteps
from ttrace_torch.errors import TraceError, WrongSetting
from ttrace_torch.layout.layouts import Layout
from ttrace_torch.layout.mesh import Mesh
from ttrace_torch.perturb.perturber import Perturb
from ttrace_torch.write.background import parse_memory

# Argument of `trace` -> the variable that stands in for it.
_VARIABLES = {
    "out": variables.OUT,
    "steps": variables.STEPS,
    "ranks": variables.RANKS,
    "kinds": variables.KINDS,
    "modules": variables.MODULES,
    "compress": variables.COMPRESS,
    "memory": variables.MEMORY,
    "plan": variables.PLAN,
    "specification": variables.SPECIFICATION,
}


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
    the user gave no value: `with_environment` then takes the environment variable. Values are
    parsed by the methods, inside `reading`, which knows where a value came from.

    from_environment: the names of the fields that a variable gave.
    noise_at: the module of a noise run; from the environment alone.
    """

    out: str | Path | None = None
    model: ModelConfig = field(default_factory=ModelConfig)
    perturb: Perturb | None = None
    kinds: str | Iterable[str] | None = None
    modules: str | Iterable[str] | None = None
    run: Mapping[str, Any] | None = None
    compress: int | str | None = None
    plan: str | Path | None = None
    steps: str | int | Iterable[int] | None = None
    ranks: str | int | Iterable[int] | None = None
    memory: str | int | None = None
    specification: str | Path | None = None
    interleaved: bool | None = None
    scaler: Any = None
    dp_axis: str | Sequence[str] | None = None
    averaged_over: float | None = None
    from_environment: frozenset[str] = frozenset()
    noise_at: str | None = None

    def with_environment(self, environment: Mapping[str, str] | None = None) -> TraceConfig:
        """Returns a copy with environment variables in the place of fields that are None.

        environment: `os.environ` by default. An empty variable counts as unset.
        Throws TraceError for a noise run whose variables do not parse.
        """
        said = variables.settings_in(os.environ if environment is None else environment)
        taken = {
            name: said[variable]
            for name, variable in _VARIABLES.items()
            if variable in said and getattr(self, name) is None
        }
        perturb = self.perturb if self.perturb is not None else _noise(said)
        whole: dict[str, Any] = {**taken, "perturb": perturb}
        return replace(
            self,
            **whole,
            from_environment=frozenset(taken),
            noise_at=said.get(variables.NOISE_AT),
        )

    @property
    def changes_the_run(self) -> bool:
        """Whether the run is perturbed or rewritten, so that nobody trains with its results."""
        return self.perturb is not None or self.plan is not None

    @property
    def is_asked_for_by_environment(self) -> bool:
        """Whether the script alone would record nothing."""
        return self.from_environment >= {
            name for name in ("out", "specification") if getattr(self, name) is not None
        }

    def gave(self, name: str) -> bool:
        """Whether a variable of the environment gave the field."""
        return name in self.from_environment

    def check_noise(self) -> None:
        """Throws WrongSetting for the place of a perturbation without the perturbation."""
        if self.noise_at is not None and self.perturb is None:
            raise WrongSetting(
                f"{variables.NOISE_AT}={self.noise_at!r} needs {variables.NOISE}, the seed of the "
                "noise"
            )

    @contextmanager
    def refusing(self, is_of_job: bool = True) -> Iterator[None]:
        """A context for checks whether the job can be traced: a TraceError in it becomes a
        WrongSetting if only the environment asks for the trace.

        is_of_job: whether no argument of the script can be the reason.
        """
        try:
            yield
        except TraceError as error:
            if not is_of_job or not self.is_asked_for_by_environment:
                raise
            raise WrongSetting(str(error)) from error

    @contextmanager
    def reading(self, name: str) -> Iterator[None]:
        """A context that uses the field `name`: a TraceError in it becomes a WrongSetting if the
        value came from the environment."""
        try:
            yield
        except TraceError as error:
            if not self.gave(name):
                raise
            said = f"{_VARIABLES[name]}={getattr(self, name)!r}"
            text = str(error)
            raise WrongSetting(text if text.startswith(said) else f"{said}: {text}") from error

    def prefix(self, name: str) -> str:
        """How messages name the field: "steps=", or the variable that gave it."""
        return f"{_VARIABLES[name] if self.gave(name) else name}="

    def chosen_steps(self) -> Steps:
        """The steps to record: only the first if the script gave no `out` and nobody steps."""
        if isinstance(self.steps, str) and re.fullmatch(r"\+[1-9][0-9]{0,5}", self.steps):
            return FirstSteps(str(self.out), announces=False, count=int(self.steps))
        if self.steps is not None:
            with self.reading("steps"):
                return TheseSteps(int_ranges(self.steps, self.prefix("steps")))
        if self.out is None:
            # Only a specification is asked for, and it needs one step.
            return FirstSteps(str(self.specification), announces=False)
        return FirstSteps(str(self.out)) if self.gave("out") else Steps()

    def chosen_ranks(self) -> list[int] | None:
        """The ranks that record; None for all ranks."""
        if self.ranks is None:
            return None
        with self.reading("ranks"):
            return int_ranges(self.ranks, self.prefix("ranks")).listed()

    def names(self, name: str) -> list[str] | None:
        """The kinds or modules, which a text lists with commas; None for all."""
        given: str | Iterable[str] | None = getattr(self, name)
        if isinstance(given, str):
            return [part.strip() for part in given.split(",")]
        return None if given is None else list(given)

    def memory_bytes(self) -> int | None:
        """The number of bytes that may wait to be written; None for the default."""
        if self.memory is None:
            return None
        with self.reading("memory"):
            return parse_memory(self.memory, self.prefix("memory"))

    def divisor(self) -> float:
        """What raw gradients are divided by."""
        if self.averaged_over is None:
            return 1.0
        if isinstance(self.averaged_over, bool) or not self.averaged_over > 0:
            raise TraceError(
                f"averaged_over={self.averaged_over!r}: give a positive number, such as the number "
                "of ranks whose gradients the job averages"
            )
        return float(self.averaged_over)

    def compression(self) -> int | None:
        """The deflate level, 0 to 9; None for none."""
        if self.compress is None:
            return None
        with self.reading("compress"):
            prefix = self.prefix("compress")
            try:
                level = int(self.compress)
            except ValueError:
                raise TraceError(f"{prefix}{self.compress!r} is no integer") from None
            if not 0 <= level <= 9:
                raise TraceError(f"{prefix}{self.compress!r}: the levels are 0 to 9")
            return level


def is_active(out: str | Path | None, specification: str | Path | None = None) -> bool:
    """Whether anything is recorded: the script, TTRACE_OUT or TTRACE_SPECIFICATION gives a path."""
    if out is not None or specification is not None:
        return True
    said = variables.settings_in(os.environ)
    return variables.OUT in said or variables.SPECIFICATION in said


def _noise(said: Mapping[str, str]) -> Perturb | None:
    if variables.NOISE not in said:
        return None
    try:
        seed = int(said[variables.NOISE])
    except ValueError:
        raise TraceError(f"{variables.NOISE}={said[variables.NOISE]!r} is no integer") from None
    return Perturb(seed, at=said.get(variables.NOISE_AT))
