"""Forwards of the whole model without gradients: the generation of text to train on, the old
probabilities of a policy, an evaluation. They belong to no micro-batch, and are not recorded.

What counts is whether gradients are off, not the mode of the model: a reference policy may run in
training mode. The first pass of a reentrant checkpoint runs without gradients too, but inside an
autograd function, and is recorded. A step that begins with gradients off is an evaluation to be
traced: there such forwards are recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import torch
from torch import nn

from ttrace_torch.base.names import ROOT, ModelNames
from ttrace_torch.capture.calls import CallCounter, in_backward, in_function
from ttrace_torch.capture.compiled import is_inside_any


class Evaluations:
    """Suspends the recording of a step in forwards of the whole model without gradients.

    seen: whether there was one.
    trained: whether there was a forward of the whole model with gradients.
    """

    def __init__(self, calls: CallCounter) -> None:
        self.seen = self.trained = False
        self._calls = calls
        self._is_one_itself = not torch.is_grad_enabled()
        # How many whole models run inside each other, and whether recording is suspended.
        self._depth = 0
        self._suspended = False
        self._paused_before = False

    def attach(
        self, names: ModelNames, compiled: Mapping[str, nn.Module], stack: ExitStack
    ) -> None:
        """Follows the forwards of the whole model until `stack` ends.

        compiled: what `compiled_of` says.
        """
        if self._is_one_itself:
            return
        for name in whole_models(names):
            module = compiled.get(name, names.modules[name])
            if is_inside_any(name, compiled) or (
                name in compiled and module is names.modules[name]
            ):
                continue
            before = module.register_forward_pre_hook(self._begin, prepend=True)
            after = module.register_forward_hook(self._end, always_call=True)
            stack.callback(before.remove)
            stack.callback(after.remove)

    def _begin(self, *_: Any) -> None:
        self._depth += 1
        off = not torch.is_grad_enabled()
        self.trained = self.trained or not off
        if self._depth == 1 and off and not in_backward() and not in_function():
            self._suspended = self.seen = True
            self._paused_before, self._calls.paused = self._calls.paused, True

    def _end(self, *_: Any) -> None:
        self._depth -= 1
        if self._depth == 0 and self._suspended:
            self._suspended = False
            self._calls.paused = self._paused_before


def whole_models(names: ModelNames) -> list[str]:
    """The model, and the modules inside that hold all its trained parameters, such as a model that
    an adapter wraps."""
    found: set[str] | None = None
    for name, parameter in names.parameters.items():
        if parameter.requires_grad:
            holding = {around for owner, _ in names.owners[name] for around in _around(owner)}
            found = holding if found is None else found & holding
    return [name for name in names.modules if name == ROOT or name in (found or ())]


def _around(name: str) -> list[str]:
    """The module `name`, and those that contain it, the model aside."""
    parts = [] if name == ROOT else name.split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts) + 1)]
