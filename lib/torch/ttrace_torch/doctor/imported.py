"""Imports a training script in a process of its own, with a limit, to look at the model it makes.

The process answers in a file, which the script cannot fill by printing. It has no terminal, it ends
as soon as it has answered, and what the script has started ends with it.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ttrace_torch.base.child import die_with_parent, how_it_ended
from ttrace_torch.doctor.guards import IMPORTED_AS

# For a script that reads its data or a large checkpoint when it is imported.
_LIMIT_SECONDS = 120.0
_KEPT_BYTES = 4096


class NoAnswerError(Exception):
    """The process ended, or was ended, before it had answered; the message says how."""


def answer_of(script: Path) -> Mapping[str, Any]:
    """Imports `script`. The answer has `models`, a list of name, class, number of parameters and
    names of modules with active dropout; or `error`, the exception that ended the import, and
    `ended`, whether the script asked for the end by it.

    Throws NoAnswerError.
    """
    with tempfile.TemporaryDirectory(prefix="ttrace_doctor_") as folder:
        answer = Path(folder) / "answer.json"
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(script), str(answer)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            said = _wait(process)
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
        with suppress(OSError, ValueError):
            found = json.loads(answer.read_text(encoding="utf-8"))
            if code == 0 and isinstance(found, dict):
                return found
    if said is None:
        raise NoAnswerError(f"has not ended after {_LIMIT_SECONDS:g} s, and was ended")
    last = "".join(said.decode(errors="replace").strip().splitlines()[-1:])
    shown = "".join(one if one.isprintable() else "?" for one in last)[:200]
    ended = f"ended Python{how_it_ended(code)}"
    raise NoAnswerError(f"{ended}; the last line that it printed: {shown}" if shown else ended)


def _wait(process: subprocess.Popen[bytes]) -> bytes | None:
    """Waits for the end of the process. Returns the end of what it printed; None past the limit."""
    assert process.stdout is not None
    pipe, said = process.stdout.fileno(), b""
    os.set_blocking(pipe, False)
    until = time.monotonic() + _LIMIT_SECONDS
    how = os.WEXITED | os.WNOHANG | os.WNOWAIT
    while True:
        # What it leaves behind may hold the pipe, and it may close the pipe itself. It is not
        # waited for here, so that its group keeps its number.
        ended = os.waitid(os.P_PID, process.pid, how) is not None
        part = b""
        with suppress(BlockingIOError):
            part = os.read(pipe, 1 << 16)
        said = (said + part)[-_KEPT_BYTES:]
        if ended or time.monotonic() > until:
            return said if ended else None
        if not part:
            time.sleep(0.02)


def _import(script: Path, answer: Path) -> None:
    """Writes what importing `script` makes to the file `answer`."""
    process = os.getpid()
    found: dict[str, Any] = {}
    sys.argv[:] = [str(script)]
    sys.path.insert(0, str(script.parent))
    try:
        found["models"] = _models(runpy.run_path(str(script), run_name=IMPORTED_AS))
    except BaseException as error:
        found["error"] = f"{type(error).__name__}: {error}"
        frames = {Path(f.filename).name for f in traceback.extract_tb(error.__traceback__)}
        found["ended"] = isinstance(error, SystemExit) and "argparse.py" not in frames
    # A copy of this process that the script has made does not answer.
    if os.getpid() == process:
        whole = answer.with_suffix(".part")
        whole.write_text(json.dumps(found), encoding="utf-8")
        whole.rename(answer)
    os._exit(0)


def _models(made: Mapping[str, Any]) -> list[list[Any]]:
    """The models among what the script has made. A script that makes one has imported torch."""
    torch = sys.modules.get("torch")
    if torch is None:
        return []
    from ttrace_torch.base.names import ModelNames
    from ttrace_torch.checks import active_dropout

    found = []
    for name, model in made.items():
        if isinstance(model, torch.nn.Module):
            count = sum(parameter.numel() for parameter in model.parameters())
            dropout = list(active_dropout(ModelNames.of(model)))
            found.append([name, type(model).__name__, count, dropout])
    return found


if __name__ == "__main__":
    die_with_parent()
    _import(Path(sys.argv[1]).absolute(), Path(sys.argv[2]))
