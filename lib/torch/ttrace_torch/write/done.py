"""Tells the program that started the job that its trace is complete, or that there will be none.

`ttrace run` names a file in TTRACE_DONE, waits for it, and then ends the job. Nothing of it throws.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ttrace_torch import variables

SCHEMA = "ttrace.done/1"


def is_awaited() -> bool:
    """Whether somebody waits for the trace, so that it closes after the last step to record."""
    return variables.DONE in variables.settings_in(os.environ)


def tell_complete(run: str, steps: Sequence[int]) -> None:
    """Tells that the files of all ranks are closed.

    run: the id in the manifest.
    """
    _tell({"run": run, "steps": list(steps)})


def tell_failed(why: str) -> None:
    """Tells that nothing more will be recorded."""
    _tell({"failed": why})


def _tell(said: dict[str, object]) -> None:
    if not is_awaited():
        return
    path = Path(variables.settings_in(os.environ)[variables.DONE])
    half = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        half.write_text(json.dumps({"schema": SCHEMA, **said}), encoding="utf-8")
        os.replace(half, path)
    except OSError:
        # A full disk may still have room for a name, which says that the job can end.
        with suppress(OSError):
            half.unlink()
        with suppress(OSError):
            path.touch()
