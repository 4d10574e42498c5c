"""The collector's one exception type."""


class TraceError(RuntimeError):
    """The trace would be wrong or unreadable. Says which tensor, which rank and the way out."""
