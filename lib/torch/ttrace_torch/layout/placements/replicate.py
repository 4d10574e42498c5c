"""`Replicate`: all ranks hold equal copies."""

from __future__ import annotations

from dataclasses import dataclass

from ttrace_torch.layout.placements.placement import Uncut


@dataclass(frozen=True)
class Replicate(Uncut):
    """Every rank of the axis holds an equal copy."""

    # The manifest has no member for it: it leaves replicated axes out.
    json_member = "replicate"

    def to_json(self) -> None:
        return None
