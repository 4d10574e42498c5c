"""`Only`: a single rank of the axis holds the tensor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ttrace_torch.errors import TraceError
from ttrace_torch.layout.placements.placement import Placement, Uncut


@dataclass(frozen=True)
class Only(Uncut):
    """Held at one coordinate of the axis; the other ranks record nothing."""

    coordinate: int

    json_member = "only"

    def to_json(self) -> dict[str, Any]:
        return {"only": self.coordinate}

    def normalised(self, ndim: int, ranks: int, axis: str, what: str) -> Placement:
        if not 0 <= self.coordinate < ranks:
            raise TraceError(
                f"{what}: Only({self.coordinate}) on axis {axis}, which has {ranks} "
                "coordinates; give one of them"
            )
        return self

    def holds(self, index: int) -> bool:
        return index == self.coordinate
