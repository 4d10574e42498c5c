"""Trains cases with transformers, as `launching.py` says. A case is what its script reads.

A case that says `twice` trains without a tracer first, and must train the same with one.
"""

from __future__ import annotations

import importlib

import launching

SCRIPT = "train_transformers"


def train(case, out):
    script = importlib.import_module(case.get("script", SCRIPT))
    if case.get("twice"):
        assert script.main(case, None) == script.main(case, out)
    else:
        script.main(case, out)


if __name__ == "__main__":
    launching.launch(launching.begin_gloo, train, SCRIPT)
