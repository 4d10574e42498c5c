"""Trains cases with PyTorch's own parallelism, as `launching.py` says.

A case is what `train_torch.main` or `train_pipeline.main` reads.
"""

from __future__ import annotations

import launching
import train_pipeline
import train_torch


def train(case, out):
    script = train_pipeline if "schedule" in case else train_torch
    script.main(case, out)


if __name__ == "__main__":
    launching.launch(launching.begin_gloo, train)
