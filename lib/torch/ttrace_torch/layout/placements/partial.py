"""`Partial`: each rank holds a term of a reduction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ttrace_torch.errors import TraceError
from ttrace_torch.layout.placements.placement import Uncut


@dataclass(frozen=True)
class Partial(Uncut):
    """The logical value is the reduction ("sum", "mean" or "max") over the axis."""

    reduction: str = "sum"

    json_member = "partial"

    def __post_init__(self) -> None:
        if self.reduction not in ("sum", "mean", "max"):
            raise TraceError(f'Partial("{self.reduction}"): the reductions are sum, mean and max')

    def to_json(self) -> dict[str, Any]:
        return {"partial": self.reduction}
