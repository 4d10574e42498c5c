"""The errors of making, reading and drawing a report."""

from __future__ import annotations

from ttrace_torch.errors import TraceError


class ReportError(TraceError):
    """A report cannot be read, or lacks what is asked of it. One sentence, with the way out."""


class CommandFailed(ReportError):
    """A command gave no answer: wrong flags, unreadable traces, no program. The text is the
    command's own sentence.

    exit_code: 2; None if the command did not run.
    """

    def __init__(self, sentence: str, exit_code: int | None = None) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code
