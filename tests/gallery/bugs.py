"""The bugs this trainer can show, and which of them are switched on.

A bug is asked for with `active("P12")` at the one place where its mechanism lives. Everything
else about it (what it needs, what a tool should blame) is data in `BUGS`.
"""

from collections.abc import Collection
from dataclasses import dataclass


class BugError(ValueError):
    """A bug that does not exist, or that cannot show in this run."""


@dataclass(frozen=True)
class FirstWrong:
    """The tensors that differ although nothing they depend on does."""

    kind: str
    names: tuple[str, ...]  # globs over canonical names


@dataclass(frozen=True)
class Bug:
    source: str
    mechanism: str
    needs: frozenset[str]  # as in Config.features
    first_wrong: FirstWrong
    cause: str  # as in the diagnosis of `ttrace localize`


BUGS = {
    "P12": Bug(
        source="Megatron-LM 1446",
        mechanism="norm parameters lose the sequence-parallel flag: gradient not summed over tp",
        needs=frozenset({"tp", "sp"}),
        first_wrong=FirstWrong(
            "main_grad", ("layers.*.norm1.*", "layers.*.norm2.*", "final_norm.*")
        ),
        cause="missing_reduction",
    ),
}

_active: set[str] = set()


def activate(names: Collection[str], features: Collection[str]) -> None:
    """Switches exactly `names` on, before the model is built.

    Throws BugError for a bug whose axes are off: it could not show, and a run that was meant to
    be wrong would pass for one that is.
    """
    for name in names:
        if name not in BUGS:
            raise BugError(f"--bug {name}: known are {', '.join(BUGS)}")
        missing = sorted(BUGS[name].needs - set(features))
        if missing:
            raise BugError(f"--bug {name} cannot show: this run has no {' and no '.join(missing)}")
    _active.clear()
    _active.update(names)


def active(name: str) -> bool:
    if name not in BUGS:
        raise BugError(f"no bug is called {name}")
    return name in _active
