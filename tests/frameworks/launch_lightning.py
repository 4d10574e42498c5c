"""Trains cases with Lightning, as `launching.py` says. A case is what `train_lightning.main` reads.

A case that says `twice` trains without a tracer first, and must train the same with one.
"""

from __future__ import annotations

import logging
import os

import launching
import train_lightning

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


def begin(rank, world):
    # What tells Lightning that the processes are there already.
    os.environ.update(TORCHELASTIC_RUN_ID="tests", LOCAL_WORLD_SIZE=str(world))
    os.environ.update(GROUP_RANK="0")
    launching.begin_gloo(rank, world)


def train(case, out):
    if case.get("twice"):
        assert train_lightning.main(case, None) == train_lightning.main(case, out)
    else:
        train_lightning.main(case, out)


if __name__ == "__main__":
    launching.launch(begin, train)
