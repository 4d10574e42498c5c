"""torch's newest release: an optimizer of whole matrices."""

from __future__ import annotations

from hunt import torch_rows
from hunt.torch_rows import DDP, optimizer


def row(name, case, world=2, **more):
    return torch_rows.row(f"torch 2.15.0 {name}", case, world, newest=True, **more)


def muon(**settings):
    return {**optimizer("Muon", **settings), "matrices": True}


ROWS = [row("ddp muon", {**DDP, **muon()})]
