"""What keeps a matrix, or one of its layouts, from being run."""

from __future__ import annotations

from ttrace_torch.errors import TraceError


class MatrixError(TraceError):
    """A layout cannot be made, or a run gave nothing to judge. Names the argument at fault."""
