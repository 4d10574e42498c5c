"""The exceptions of the collector."""


class TraceError(RuntimeError):
    """The trace would be wrong or unreadable. Names the tensor, the rank and the remedy."""


class Unplaced(TraceError):
    """How a tensor lies over the mesh cannot be told.

    placements: a guess at it, as the user would write it in a `Layout`.
    """

    def __init__(self, reason: str, placements: str = "{}") -> None:
        super().__init__(reason)
        self.placements = placements


class WrongSetting(TraceError):
    """A variable of the environment asks for something that cannot be recorded. This ends the
    tracing, not the job."""
