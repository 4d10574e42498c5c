"""The collector's one exception type."""


class TraceError(RuntimeError):
    """The trace would be wrong or unreadable. Names the tensor, the rank and the remedy."""
