"""The command `ttrace` where the collector was installed without the program."""

from __future__ import annotations

import sys

__all__ = ["main"]

MESSAGE = """\
ttrace: only the collector for PyTorch is installed here, as TTRACE_WITHOUT_CLI was set.
Record traces here, and compare them on a machine that has the program. To add the program, run
this in the repository without that variable:
  pip install --force-reinstall --no-deps ./lib/torch
"""


def main() -> int:
    """Says what was left out; exit code 2, as for every command that could not be carried out."""
    sys.stderr.write(MESSAGE)
    return 2
