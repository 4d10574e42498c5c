"""The steps of a view by strides, against torch's own as_strided."""

from __future__ import annotations

import random

import pytest
import torch

from ttrace_torch.specification.recorder import OperationRecorder
from ttrace_torch.specification.strides import strided_steps

TRIES = 4000


def by_steps(x, steps):
    for step in steps:
        if step.primitive == "reshape":
            x = x.reshape(step.shape)
        elif step.primitive == "permute":
            x = x.permute(step.where)
        else:
            assert step.primitive == "slice"
            dim, start, stop, every = step.where
            x = x[(slice(None),) * dim + (slice(start, stop, every),)]
        assert tuple(x.shape) == step.shape
    return x


def test_views_by_any_strides_are_those_of_torch():
    draw = random.Random(0)
    made = 0
    for _ in range(TRIES):
        base = tuple(draw.randint(1, 6) for _ in range(draw.randint(1, 3)))
        x = torch.arange(torch.Size(base).numel()).reshape(base)
        dims = draw.randint(1, 3)
        size = tuple(draw.randint(1, 4) for _ in range(dims))
        stride = tuple(draw.randint(0, 8) for _ in range(dims))
        offset = draw.randint(0, 6)
        if offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True)) >= x.numel():
            continue
        view = x.as_strided(size, stride, offset)
        steps = strided_steps(base, size, stride, offset)
        if steps is None:
            continue
        assert torch.equal(by_steps(x, steps), view), (base, size, stride, offset)
        assert len(view.unique()) == view.numel(), "no element twice"
        made += 1
    assert made > TRIES / 8


@pytest.mark.parametrize(
    "base, size, stride, offset",
    [
        # The rows of a relative shift, from the first element on and from a later one.
        ((2, 3, 17, 8), (2, 3, 8, 8), (408, 136, 16, 1), 8),
        ((5, 7), (4, 5), (6, 1), 11),
        # Rows that would reach beyond the elements, if they began with the first one.
        ((3, 5), (3, 2), (4, 2), 4),
    ],
)
def test_strides_that_do_not_divide_each_other_have_steps(base, size, stride, offset):
    x = torch.arange(torch.Size(base).numel()).reshape(base)
    steps = strided_steps(base, size, stride, offset)
    assert steps is not None
    assert torch.equal(by_steps(x, steps), x.as_strided(size, stride, offset))


@pytest.mark.parametrize(
    "size, stride, offset",
    [((4, 3), (2, 1), 0), ((3, 3), (0, 1), 0), ((2, 2), (8, 1), 20), ((2,), (1,), -1)],
)
def test_elements_twice_or_outside_have_none(size, stride, offset):
    assert strided_steps((3, 7), size, stride, offset) is None


def test_memory_that_is_known_in_part_and_then_whole_can_be_written():
    """The writer goes from a view up to what it was cut from."""
    recorder = OperationRecorder()
    memory = torch.zeros(2)
    part = recorder.value(memory[:1])
    whole = recorder.value(memory)
    assert recorder.value(memory) == whole and recorder.value(memory[:1]) == part
    leaf, before = recorder.set_apart(memory)
    assert before == whole and recorder.value(memory) == leaf
    assert recorder.value(memory[:1]) != part
