"""Runs Python programs as `subprocess.run` does, forked from a process that has imported torch:
importing it takes longer than most programs of tests."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

_SERVER = Path(__file__).with_name("python_server.py")
_CLIENT = Path(__file__).with_name("python_client.py")
_LIBRARY = Path(__file__).resolve().parents[2] / "lib" / "torch"
# Not a folder of one test, which may have set this meanwhile.
_TEMPORARY = tempfile.gettempdir()
_servers: dict[str, _Server] = {}


def run_python(
    arguments: Sequence[str | Path],
    timeout: float,
    python: str | Path = sys.executable,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """What `python` does with these arguments: a script or -m MODULE, and what it takes.

    environment: in addition to that of this process.
    """
    given = [str(argument) for argument in arguments]
    return _server(str(python)).run(given, timeout, {**os.environ, **(environment or {})}, cwd)


def python_command() -> list[str]:
    """The words of a command that takes arguments as `python` does, and does the same: for commands
    that another program starts and ends."""
    # Nothing of the site's, whose packages this process has no need of.
    return [sys.executable, "-ES", str(_CLIENT), str(_server(sys.executable).socket)]


def _server(python: str) -> _Server:
    if python not in _servers:
        _servers[python] = _Server(python)
    return _servers[python]


class _Server:
    def __init__(self, python: str) -> None:
        # Of several paths, the library is all that it imports itself.
        environment = {**os.environ, "PYTHONPATH": str(_LIBRARY), "OMP_NUM_THREADS": "1"}
        folder = tempfile.mkdtemp(prefix="ttrace-python-", dir=_TEMPORARY)
        self.socket = Path(folder, "socket")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as clients:
            clients.bind(str(self.socket))
            clients.listen()
            self._process = subprocess.Popen(
                [python, _SERVER, str(clients.fileno())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
                text=True,
                start_new_session=True,
                pass_fds=[clients.fileno()],
            )
        self._python = python
        atexit.register(self._end, folder, os.getpid())

    def _end(self, folder: str, owner: int) -> None:
        if os.getpid() == owner:  # and no fork of it that ends
            self._process.kill()
            shutil.rmtree(folder, ignore_errors=True)

    def run(
        self,
        arguments: list[str],
        timeout: float,
        environment: Mapping[str, str],
        cwd: Path | None,
    ) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryDirectory() as folder:
            streams = [Path(folder, name) for name in ("out", "err")]
            request = {
                "arguments": arguments,
                "environment": dict(environment),
                "cwd": str(cwd or Path.cwd()),
                "streams": [str(path) for path in streams],
            }
            print(json.dumps(request), file=self._process.stdin, flush=True)
            group = int(self._answer())
            late = threading.Timer(timeout, os.killpg, (group, signal.SIGKILL))
            late.start()
            code = int(self._answer())
            out, err = (path.read_text(encoding="utf-8", errors="replace") for path in streams)
            command = [self._python, *arguments]
            if late.finished.is_set():
                raise subprocess.TimeoutExpired(command, timeout, out, err)
            late.cancel()
        return subprocess.CompletedProcess(command, code, out, err)

    def _answer(self) -> str:
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            raise RuntimeError(f"{_SERVER.name} ended: {self._process.wait()}")
        return line
