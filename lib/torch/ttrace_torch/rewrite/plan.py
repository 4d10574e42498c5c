"""Plans: the modules whose inputs and output gradients a run overwrites. See schemas/plan-v1.md."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Union

from ttrace_torch.base.names import check_name
from ttrace_torch.errors import TraceError
from ttrace_torch.init.philox import check_seed

SCHEMA = "ttrace.plan/1"


@dataclass(frozen=True)
class Values:
    """The normal distribution of a tensor's values."""

    mean: float
    std: float


# The values of all floating-point tensors, or by the tensor's index.
Tensors = Union[Values, dict[int, Values]]


@dataclass(frozen=True)
class Entry:
    """What to overwrite of the modules that `name` is or matches; None for nothing."""

    name: str
    inputs: Tensors | None = None
    grad_outputs: Tensors | None = None


@dataclass(frozen=True)
class Plan:
    """The content of a plan file.

    source: path of the file, for messages.
    digest: SHA-256 of the canonical text, 64 hexadecimal digits.
    """

    source: str
    seed: int
    entries: tuple[Entry, ...]
    digest: str


def read_plan(path: Path) -> Plan:
    """Reads and checks a plan. Throws TraceError with the file and the place in it."""
    try:
        text = path.read_text(encoding="utf-8")
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except (OSError, ValueError) as error:
        raise TraceError(f"plan {path}: cannot be read ({error})") from error
    return _Reader(str(path)).plan(value)


def canonical_text(seed: int, entries: tuple[Entry, ...]) -> str:
    """The text that the digest is computed from."""
    modules = []
    for entry in entries:
        module: dict[str, Any] = {"name": entry.name}
        for member in ("inputs", "grad_outputs"):
            tensors = getattr(entry, member)
            if isinstance(tensors, Values):
                module[member] = _bits(tensors)
            elif tensors is not None:
                module[member] = [{"index": k, **_bits(values)} for k, values in tensors.items()]
        modules.append(module)
    plan = {"schema": SCHEMA, "seed": seed, "modules": modules}
    return json.dumps(plan, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _bits(values: Values) -> dict[str, str]:
    # JSON libraries write numbers differently.
    return {"mean": _hexadecimal(values.mean), "std": _hexadecimal(values.std)}


def _hexadecimal(number: float) -> str:
    return struct.pack(">d", number).hex()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"a key stands twice in one object: {[key for key, _ in pairs]}")
    return found


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")


class _Reader:
    """Checks a plan member by member; `where` is a JSON pointer for messages."""

    def __init__(self, source: str) -> None:
        self._source = source

    def plan(self, value: Any) -> Plan:
        found = self._members(value, "", ("schema", "seed", "modules"), ("schema",))
        if found["schema"] != SCHEMA:
            self._refuse("/schema", f"this is {found['schema']!r}, this collector reads {SCHEMA!r}")
        for member in ("seed", "modules"):
            if member not in found:
                self._refuse("the top level", f'"{member}" is missing')
        seed = check_seed(found["seed"], f"plan {self._source}: /seed")
        entries: dict[str, Entry] = {}
        for number, one in enumerate(self._list(found["modules"], "/modules")):
            entry = self._entry(one, f"/modules/{number}")
            if entry.name in entries:
                self._refuse(f"/modules/{number}/name", f"{entry.name!r} stands twice")
            entries[entry.name] = entry
        listed = tuple(entries.values())
        digest = hashlib.sha256(canonical_text(seed, listed).encode()).hexdigest()
        return Plan(self._source, seed, listed, digest)

    def _entry(self, value: Any, where: str) -> Entry:
        found = self._members(value, where, ("name", "inputs", "grad_outputs"), ("name",))
        name = found["name"]
        if not isinstance(name, str):
            self._refuse(f"{where}/name", f"expected a string, not {name!r}")
        check_name(name, f"plan {self._source}: {where}/name")
        if len(found) == 1:
            self._refuse(where, 'give "inputs", "grad_outputs" or both')
        given = {
            member: self._tensors(found[member], f"{where}/{member}")
            for member in ("inputs", "grad_outputs")
            if member in found
        }
        return Entry(name, **given)

    def _tensors(self, value: Any, where: str) -> Tensors:
        if isinstance(value, dict):
            return self._values(self._members(value, where, ("mean", "std"), ("std",)), where)
        by_index: dict[int, Values] = {}
        for number, one in enumerate(self._list(value, where)):
            here = f"{where}/{number}"
            found = self._members(one, here, ("index", "mean", "std"), ("index", "std"))
            index = found["index"]
            if isinstance(index, bool) or not isinstance(index, int) or index < 0:
                self._refuse(f"{here}/index", f"expected a whole number from 0 on, not {index!r}")
            if index in by_index:
                self._refuse(f"{here}/index", f"the index {index} stands twice")
            by_index[index] = self._values(found, here)
        return by_index

    def _values(self, found: dict[str, Any], where: str) -> Values:
        mean = self._number(found.get("mean", 0), f"{where}/mean")
        std = self._number(found["std"], f"{where}/std")
        if not std > 0:
            self._refuse(f"{where}/std", f"expected a number above 0, not {std}")
        return Values(mean, std)

    def _number(self, value: Any, where: str) -> float:
        number = math.nan
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            try:
                number = float(value)
            except OverflowError:
                number = math.inf
        if not math.isfinite(number):
            self._refuse(where, f"expected a finite number, not {value!r}")
        return number

    def _list(self, value: Any, where: str) -> list[Any]:
        if not isinstance(value, list) or not value:
            self._refuse(where, "expected a list with at least one item")
        return value

    def _members(
        self, value: Any, where: str, known: tuple[str, ...], required: tuple[str, ...]
    ) -> dict[str, Any]:
        if not isinstance(value, dict):
            self._refuse(where or "the top level", "expected an object")
        for member in required:
            if member not in value:
                self._refuse(where or "the top level", f'"{member}" is missing')
        for member in value:
            # A later version may have other keys; the message about the version is the better one.
            if member not in known and value.get("schema", SCHEMA) == SCHEMA:
                self._refuse(f"{where}/{member}", "unknown key")
        return value

    def _refuse(self, where: str, why: str) -> NoReturn:
        raise TraceError(f"plan {self._source}: {where}: {why}")
