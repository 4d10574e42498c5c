"""What is stored of a tensor: the one place where that is chosen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass(frozen=True)
class Stored:
    """What the rank's file gets for its part of a tensor.

    value: the tensor whose elements are written.
    members: what the manifest's entry says of it beyond the defaults; equal on all ranks.
    """

    value: torch.Tensor
    members: dict[str, Any] = field(default_factory=dict)


def whole(part: torch.Tensor) -> Stored:
    """All elements of the rank's part, in their own type. Nothing else is chosen so far."""
    return Stored(part)
