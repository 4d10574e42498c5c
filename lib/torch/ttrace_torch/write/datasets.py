"""Where the datasets of a rank's file lie."""

from __future__ import annotations

from dataclasses import dataclass, field

from ttrace_torch.write.chunks import Chunks

# Name of an element type, and shape.
Type = tuple[str, tuple[int, ...]]


@dataclass
class Datasets:
    """The datasets of one group, by name. A group may have many, so none has an object of its own.

    places: where the elements begin, or the tree above their chunks.
    chunks: the chunks of those that have some.
    """

    types: dict[str, Type] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    chunks: dict[str, Chunks] = field(default_factory=dict)

    def move(self, name: str, group: Datasets) -> None:
        """Moves a dataset to another group."""
        group.types[name], group.places[name] = self.types.pop(name), self.places.pop(name)
        if name in self.chunks:
            group.chunks[name] = self.chunks.pop(name)

    def drop(self, name: str) -> None:
        """Drops a dataset, if the group has it."""
        for facts in (self.types, self.places, self.chunks):
            facts.pop(name, None)  # type: ignore[attr-defined]
