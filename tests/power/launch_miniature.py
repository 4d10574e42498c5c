"""Trains cases with the miniature, as tests/frameworks/launching.py says.

A case has `options` of the trainer, perhaps `noise`, the seed of a noise run, and perhaps
`gradients`, by which the gradient of the loss is too large, though the loss is right: as if its sum
were divided by a wrong count of tokens.
"""

from __future__ import annotations

from unittest import mock

import launching
import torch
from gallery import microbatches
from gallery import train as trainer
from gallery.config import parse


def train(case, out):
    options = [*case["options"], "--trace", str(out)]
    if "noise" in case:
        options += ["--perturb", str(case["noise"])]
    # The launcher's process group serves all cases.
    ours = {"init_process_group": mock.DEFAULT, "destroy_process_group": mock.DEFAULT}
    with mock.patch.multiple(torch.distributed, **ours):
        with _gradients_scaled(case.get("gradients", 1)):
            trainer.train(parse(options))


def _gradients_scaled(factor):
    mean_loss = microbatches.mean_loss

    def scaled(*arguments):
        loss = mean_loss(*arguments)
        return loss.detach() + factor * (loss - loss.detach())

    return mock.patch.object(microbatches, "mean_loss", scaled if factor != 1 else mean_loss)


if __name__ == "__main__":
    launching.launch(launching.begin_gloo, train)
