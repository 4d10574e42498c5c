"""Micro-batches: one at a time, or several in one forward, as when a reference runs one big batch.

A tensor of several micro-batches has no micro-batch number of its own; its manifest entry says
which micro-batches it is the sum, the mean or the concatenation of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional, Union

import torch

from ttrace_torch.errors import TraceError

# How a tensor combines several micro-batches: the dimension of concatenation, "mean" or "sum".
BatchRule = Union[int, str]
BatchRules = Union[BatchRule, Sequence[Optional[BatchRule]]]

_REDUCTIONS = ("mean", "sum")


@dataclass(frozen=True)
class MicroBatches:
    """Several global micro-batches that run as one, concatenated along `dim` of the activations."""

    numbers: tuple[int, ...]
    dim: int = 0

    def __post_init__(self) -> None:
        if not self.numbers or min(self.numbers) < 0 or len(set(self.numbers)) < len(self.numbers):
            raise TraceError(
                f"micro-batches {self}: give at least one number, each from 0 on and once"
            )

    def __str__(self) -> str:
        return str(list(self.numbers))

    def rule(self, given: BatchRule | None, ndim: int) -> BatchRule:
        """The rule that a layout gives for a tensor; if it gives none, `dim`, or "mean" for a
        tensor without `dim`."""
        if given is not None:
            return given
        return self.dim if -ndim <= self.dim < ndim else "mean"

    def activation(
        self, given: BatchRule | None, tensor: torch.Tensor, what: str, gradient: bool = False
    ) -> dict[str, Any] | None:
        """The manifest's `microbatches` of a module's tensor, or of the gradient of one.

        Returns None for an integer tensor that is no concatenation: integers have no mean.
        """
        rule = self.rule(given, tensor.dim())
        if rule == "mean" and not tensor.is_floating_point():
            return None
        return self.entry(gradient_rule(rule) if gradient else rule, tensor.dim(), what)

    def entry(self, rule: BatchRule, ndim: int, what: str) -> dict[str, Any]:
        """The manifest's `microbatches`. Throws TraceError for a dimension that the tensor
        lacks."""
        if isinstance(rule, str):
            return {rule: list(self.numbers)}
        if not -ndim <= rule < ndim:
            raise TraceError(
                f"{what}: the micro-batches {self} are said to lie along dimension {rule}, but the "
                f"tensor has {ndim} dimension(s); give Layout(input_batch=..., output_batch=...) "
                'the right one, or "mean" or "sum"'
            )
        return {"shard": rule % ndim, "of": list(self.numbers)}


# One micro-batch by number, or several.
Batch = Union[int, MicroBatches]


def batch_of(numbers: int | Sequence[int], dim: int) -> Batch:
    """The current micro-batch, as the user gave it. Throws TraceError for a negative number."""
    if isinstance(numbers, Sequence):
        return MicroBatches(tuple(int(number) for number in numbers), dim)
    if numbers < 0:
        raise TraceError(f"micro-batch {numbers}: numbers count from 0")
    return numbers


def number_of(batch: Batch | None) -> int | None:
    """The micro-batch number in a tensor's key; None for several micro-batches."""
    return None if isinstance(batch, MicroBatches) else batch


def gradient_rule(rule: BatchRule) -> BatchRule:
    """The rule of a tensor's gradient, from the rule of the tensor.

    If a tensor is the mean of its micro-batches' tensors, its gradient is the sum of theirs; if it
    is their sum, each of theirs equals its gradient, and so does their mean."""
    return {"mean": "sum", "sum": "mean"}.get(rule, rule) if isinstance(rule, str) else rule


def pick_rule(rules: BatchRules | None, index: int) -> BatchRule | None:
    """The rule of a module's `index`-th tensor; None if none is given."""
    if rules is None or isinstance(rules, (int, str)):
        return rules
    return rules[index] if index < len(rules) else None


def check_batch_rules(rules: BatchRules | None, what: str) -> None:
    """Throws TraceError for a rule that is neither a dimension nor a reduction."""
    listed = [rules] if rules is None or isinstance(rules, (int, str)) else rules
    for rule in listed:
        if isinstance(rule, str) and rule not in _REDUCTIONS:
            raise TraceError(
                f'{what}: micro-batches lie along "{rule}"; give a dimension, "mean" or "sum"'
            )


def global_number(batch: Batch, count: int, data_rank: tuple[int, int] | None, ranks: int) -> int:
    """The global number of a rank's own micro-batch `batch`, of `count` on every rank.

    data_rank: the rank's number among the data-parallel ranks, and their number; None if unknown,
        which is an error on several ranks.
    ranks: number of ranks of the run.
    """
    if data_rank is None and ranks > 1:
        raise TraceError(
            f"microbatch(n, of={count}) needs trace(dp_axis=...), the mesh axes over which samples "
            "are dealt out; or give it the number that the same data has in the reference"
        )
    if isinstance(batch, MicroBatches) or not 0 <= batch < count:
        raise TraceError(
            f"microbatch({batch}, of={count}): give one number below {count}, the rank's own"
        )
    return (data_rank or (0, 1))[0] * count + batch
