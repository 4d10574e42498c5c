"""torchrun --standalone whose ranks are forked: each of them would import torch again."""

from __future__ import annotations

import dataclasses
import gc
import os
import runpy
import signal
import sys

import torch
from torch.distributed.launcher.api import elastic_launch
from torch.distributed.run import config_from_args, parse_args

import ttrace_torch.collector  # noqa: F401  so that no rank imports it

STANDALONE = ("--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0")


def rank(script: str, *arguments: str) -> None:
    # The handlers are the launcher's, which a rank of torchrun has not.
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = [script, *arguments]
    sys.path.insert(0, os.path.dirname(script))
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    # What a first optimizer step imports.
    torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))]).step()
    config, _, command = config_from_args(parse_args([*STANDALONE, *sys.argv[1:]]))
    _, *script = command  # after -u
    gc.collect()
    gc.freeze()
    elastic_launch(dataclasses.replace(config, start_method="fork"), rank)(*script)
