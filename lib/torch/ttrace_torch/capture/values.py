"""Names of a module's values by their path among the arguments or in the result.

schemas/trace-v2.md defines them. An optional argument that only one of two runs gives does not
shift the others. If one name is not valid, all values of that call are named by position.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Callable, NamedTuple

import torch
from torch import nn

from ttrace_torch.base import pytree
from ttrace_torch.base.names import is_name, value_name

_ESCAPED = frozenset("/%[]")
# What a `*args` takes has this name, whatever the function calls it: a wrapper that stands in for
# the function calls it otherwise.
_REST = "args"


class Value(NamedTuple):
    """A tensor among a module's arguments or in its result.

    position: its number among the module's tensors, if its name does not give it.
    """

    name: str
    tensor: torch.Tensor
    position: int | None = None


class ArgumentNames:
    """Names the arguments of one module by the signature of its forward function."""

    def __init__(self, module: nn.Module) -> None:
        self._positional: list[str] = []
        self._takes_rest = False
        self._first: str | None = None
        parameters = _parameters(module)
        self._known = parameters is not None
        for turn, parameter in enumerate(parameters or ()):
            if parameter.kind is parameter.VAR_POSITIONAL:
                self._takes_rest = True
            elif parameter.kind is not parameter.VAR_KEYWORD:
                if parameter.kind is not parameter.KEYWORD_ONLY:
                    self._positional.append(parameter.name)
                if turn == 0:
                    self._first = parameter.name

    def values(self, module: str, given: tuple[Sequence[Any], Mapping[str, Any]]) -> list[Value]:
        """The tensors of `given`, (args, kwargs), in order, with names that begin with `module`."""
        args, kwargs = given
        if not self._known or (len(args) > len(self._positional) and not self._takes_rest):
            return _by_position(module, pytree.tensors_in(given))
        found = []
        for number, argument in enumerate(args):
            if number < len(self._positional):
                start = self._argument(self._positional[number])
            else:
                turn = number - len(self._positional)
                # A function that takes only `*args` has a first argument, too.
                start = [] if number == 0 else [_REST, str(turn)]
            found.extend(_under(start, argument, self._of_first(number)))
        for key, argument in kwargs.items():
            first = self._first if key == self._first else None
            found.extend(_under(self._argument(key), argument, first))
        return _named(module, found)

    def _argument(self, name: str) -> list[str]:
        return [] if name == self._first else [name]

    def _of_first(self, number: int) -> str | None:
        """First component of the paths of tensors inside the first argument."""
        if number > 0:
            return None
        return self._positional[0] if self._positional else _REST


def result_values(module: str, result: Any) -> list[Value]:
    """The tensors that a module returned, in order, with names that begin with `module`."""
    found = pytree.paths_in(result)
    if isinstance(result, (tuple, list)):
        found = [([] if path == ["0"] else path, tensor) for path, tensor in found]
    return _named(module, found)


def escaped(key: str) -> str:
    """`key` with the characters that brackets may not hold as %XX, byte by byte."""

    def one(character: str) -> str:
        code = ord(character)
        control = code < 0x20 or 0x7F <= code < 0xA0
        if not control and character not in _ESCAPED and not 0xD800 <= code < 0xE000:
            return character
        return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))

    return "".join(map(one, key))


def _under(start: list[str], value: Any, first: str | None) -> list[tuple[list[str], torch.Tensor]]:
    """The tensors of an argument. Only an argument that is itself a tensor has the module's
    name."""
    if not start and first is not None and not isinstance(value, torch.Tensor):
        start = [first]
    return [(start + path, tensor) for path, tensor in pytree.paths_in(value)]


def _named(module: str, found: Sequence[tuple[list[str], torch.Tensor]]) -> list[Value]:
    tensors = [tensor for _, tensor in found]
    names = [module + "".join(f"[{escaped(key)}]" for key in path) for path, _ in found]
    whole = all("" not in path for path, _ in found) and all(map(is_name, names))
    if not whole or len(set(names)) < len(names):
        return _by_position(module, tensors)
    return [
        Value(name, tensor, None if name == value_name(module, position) else position)
        for position, (name, tensor) in enumerate(zip(names, tensors))
    ]


def _by_position(module: str, tensors: Iterable[torch.Tensor]) -> list[Value]:
    return [Value(value_name(module, k), tensor) for k, tensor in enumerate(tensors)]


def _parameters(module: nn.Module) -> list[inspect.Parameter] | None:
    """Parameters of the module's forward function without `self`; None if there is no signature.

    Wrappers replace `forward` by a function that takes anything; the class then has the signature.
    """
    found = _signature(module.forward)
    if found is None or (found and found[0].kind is inspect.Parameter.VAR_POSITIONAL):
        declared = _signature(type(module).forward)
        if (
            declared is not None
            and declared[1:]
            and declared[1].kind is not inspect.Parameter.VAR_POSITIONAL
        ):
            return declared[1:]
    return found


def _signature(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None
