"""`Rows`: rows listed in an index tensor, as the tokens that a router sends to an expert."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ttrace_torch.base.names import check_name
from ttrace_torch.errors import TraceError
from ttrace_torch.layout.placements.placement import DimPlacement
from ttrace_torch.layout.placements.ranges import Ranges


@dataclass(frozen=True)
class Rows(DimPlacement):
    """The tensor `index` lists which rows of dimension `dim` a rank holds.

    index: name given to `Tracer.index`, in the same micro-batch.
    size: number of rows of the whole tensor, if the index lists their places in it, or padding.
        Without it the numbers are labels: the whole tensor has the rows that the ranks of the axis
        list together, in the order of their labels.
    """

    dim: int
    index: str
    size: int | None = None

    json_member = "rows"

    def __post_init__(self) -> None:
        check_name(self.index, "index")

    def to_json(self) -> dict[str, Any]:
        labels = {"labels": True} if self.size is None else {}
        return {"rows": {"dim": self.dim, "index": self.index, **labels}}

    def local_ranges(self, extents: Sequence[int], ranks: int, index: int) -> list[Ranges]:
        raise TraceError(
            f'which rows it has stands in the index "{self.index}", not in the '
            "placement; cut it by Shard or Boxes to generate it"
        )

    def local_extents(self, extents: Sequence[int], ranks: int, index: int) -> list[int]:
        """`extents` unchanged: only the index tells the number of rows."""
        return list(extents)

    def whole_extents(self, local: Sequence[int], ranks: int) -> list[int]:
        """As if all ranks had as many rows; where they do not, the merge of the ranks adds up."""
        whole = list(local)
        whole[self.dim] *= ranks
        return whole
