"""Names of a module's values by path: schemas/trace-v2.md."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import pytest
import torch
from torch import nn

from ttrace_torch.capture.values import ArgumentNames, escaped, result_values

A, B, C = torch.zeros(1), torch.zeros(2), torch.zeros(3)


class Attention(nn.Module):
    def forward(self, hidden, mask=None, cos=None, sin=None, *, cache=None):
        return hidden


class Several(nn.Module):
    def forward(self, x, *args, **kwargs):
        return x


class Anything(nn.Module):
    def forward(self, *args, **kwargs):
        return args[0]


class ByKeyword(nn.Module):
    def forward(self, *, x, y=None):
        return x


def named(module, *args, **kwargs):
    values = ArgumentNames(module).values("m", (args, kwargs))
    return [(value.name, value.position) for value in values]


def test_an_optional_argument_shifts_nothing():
    rotary = {"cos": B, "sin": C}
    assert named(Attention(), A, **rotary) == [("m", None), ("m[cos]", 1), ("m[sin]", 2)]
    assert named(Attention(), A, A, B, C) == [
        ("m", None),
        ("m[mask]", 1),
        ("m[cos]", 2),
        ("m[sin]", 3),
    ]
    assert named(Attention(), A, None, B) == named(Attention(), A, cos=B)


def test_the_first_argument_is_the_module_however_it_is_given():
    assert named(Attention(), hidden=A) == [("m", None)]
    # Given last, it is not the first tensor, but has the name.
    assert named(Attention(), mask=B, hidden=A) == [("m[mask]", 0), ("m", 1)]
    assert named(ByKeyword(), x=A, y=B) == [("m", None), ("m[y]", 1)]
    assert named(ByKeyword(), y=B) == [("m[y]", 0)]


def test_containers_are_named_by_path():
    cache = ({"key": A, "a/b[%]": B}, [C])
    assert named(Attention(), (A, B), cache=cache) == [
        ("m[hidden][0]", 0),
        ("m[hidden][1]", 1),
        ("m[cache][0][key]", 2),
        ("m[cache][0][a%2Fb%5B%25%5D]", 3),
        ("m[cache][1][0]", 4),
    ]


def test_further_arguments():
    assert named(Several(), A, B, C, more=A) == [
        ("m", None),
        ("m[args][0]", 1),
        ("m[args][1]", 2),
        ("m[more]", 3),
    ]
    assert named(Anything(), A, B, more=C) == [("m", None), ("m[args][1]", 1), ("m[more]", 2)]


def test_a_star_has_one_name_whatever_it_is_called():
    """Lightning under DDP puts a function with `*_args` into a module without a forward."""
    module = Anything()
    plain = named(module, {"ids": A}, [B], more=C)
    assert plain == [("m[args][ids]", 0), ("m[args][1][0]", 1), ("m[more]", 2)]
    forward = module.forward
    module.forward = lambda *_args, **_kwargs: forward(*_args, **_kwargs)
    assert named(module, {"ids": A}, [B], more=C) == plain


def test_a_function_put_into_a_module_leaves_the_names_of_its_class():
    module = Attention()
    forward = module.forward
    module.forward = lambda *args, **kwargs: forward(*args, **kwargs)
    assert named(module, A, cos=B) == [("m", None), ("m[cos]", 1)]


def test_where_names_cannot_be_told_position_stays():
    module = Attention()
    module.forward = lambda x: x
    assert named(module, A, B, mask=C) == [("m", None), ("m[1]", None), ("m[2]", None)]
    for key in ("", "x" * 600):
        assert named(Attention(), A, cache={key: B, "b": C})[1:] == [("m[1]", None), ("m[2]", None)]
    assert named(Attention(), A, cache={1: B, "1": C})[1:] == [("m[1]", None), ("m[2]", None)]


@dataclass
class Result:
    logits: torch.Tensor
    loss: object = None


@pytest.mark.parametrize(
    "result, names",
    [
        (A, [("m", None)]),
        ((A, B), [("m", None), ("m[1]", None)]),
        ([A, None, B], [("m", None), ("m[2]", 1)]),
        ((None, A), [("m[1]", 0)]),
        (((A, B), C), [("m[0][0]", 0), ("m[0][1]", 1), ("m[1]", 2)]),
        (Result(A, (B,)), [("m[logits]", 0), ("m[loss][0]", 1)]),
        (OrderedDict(loss=A, logits=B), [("m[loss]", 0), ("m[logits]", 1)]),
        ({object: A}, [("m[0]", 0)]),
        (None, []),
    ],
    ids=str,
)
def test_results_are_named_by_their_place(result, names):
    assert [(v.name, v.position) for v in result_values("m", result)] == names


def test_escaped_characters():
    assert escaped("a b.ü") == "a b.ü"
    assert escaped("a\n%/[]\x7f\x85") == "a%0A%25%2F%5B%5D%7F%C2%85"
