"""`python_server.py DESCRIPTOR`: the process that `python_runs` forks programs from.

It takes requests from two sides: a line of its standard input, or a message of a `python_client`
through the listening socket DESCRIPTOR. It answers twice: with the number of the program's process,
and with the exit code once the program has ended."""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import importlib.util
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading

# Nothing of these begins a thread or reads a variable that a program sets.
PRELOADED = (
    "h5py",
    "torch.distributed.fsdp",
    "torch.distributed.pipelining",
    "torch.distributed.tensor.parallel",
    # transformers imports what it has when it is asked for.
    "transformers.models.gpt2.modeling_gpt2",
    "transformers.models.llama.modeling_llama",
    "transformers.trainer",
    "ttrace_torch.collector",
)


def preload() -> None:
    for name in PRELOADED:
        if importlib.util.find_spec(name.split(".")[0]):
            importlib.import_module(name)
    import torch

    # What a first optimizer step imports.
    torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))]).step()
    gc.collect()
    # The interpreter does not collect what is frozen, and Triton, which torch for GPUs brings,
    # complains on standard error of each of its objects that is left when a program ends.
    if "triton" not in sys.modules:
        gc.freeze()


def next_program() -> dict | None:
    """Serves requests; returns in each fork with what it runs, and without when there are none."""
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(2, 1)
    clients = socket.socket(fileno=int(sys.argv[1]))
    while True:
        ready, _, _ = select.select([requests, clients], [], [])
        if clients in ready:
            client, _ = clients.accept()
            keeper = os.fork()
            if keeper == 0:
                requests.close()
                answers.close()
                clients.close()
                return program_of(client)
            client.close()
            continue
        line = requests.readline()
        if not line:
            return None
        child = os.fork()
        if child == 0:
            requests.close()
            answers.close()
            clients.close()
            program = json.loads(line)
            opened = [os.open(path, os.O_WRONLY | os.O_CREAT, 0o600) for path in program["streams"]]
            return {**program, "descriptors": [os.dup(0), *opened]}
        print(child, file=answers, flush=True)
        print(os.waitstatus_to_exitcode(ended(child)), file=answers, flush=True)


def ended(child: int) -> int:
    """Waits for the child; returns its status. Buries others that ended meanwhile."""
    while True:
        process, status = os.wait()
        if process == child:
            return status


def program_of(client: socket.socket) -> dict:
    """What the client wants, in a fork of this process, which waits for its end. If the client ends
    first, it was killed, and so is the program."""
    data, descriptors, _, _ = socket.recv_fds(client, 1 << 20, 3)
    child = os.fork()
    if child == 0:
        client.close()
        return {**json.loads(data), "descriptors": descriptors}
    for descriptor in descriptors:
        os.close(descriptor)
    # A client that is gone closes its end, which select tells.
    with contextlib.suppress(OSError):
        client.send(str(child).encode())
    end = os.pidfd_open(child)
    ready, _, _ = select.select([end, client], [], [])
    if end not in ready:
        try:
            os.killpg(child, signal.SIGKILL)  # its own programs too
        except ProcessLookupError:  # it leads no group yet
            os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(OSError):
        client.send(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def become(program: dict, base: list[str]) -> None:
    """Makes this process what the interpreter would be. base: sys.path without what was added."""
    os.setsid()
    for number, descriptor in enumerate(program["descriptors"]):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(program["cwd"])
    os.environ.clear()
    os.environ.update(program["environment"])
    first, *rest = program["arguments"]
    beside = os.getcwd() if first == "-m" else os.path.dirname(os.path.abspath(first))
    added = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = [beside, *added, *base]
    importlib.invalidate_caches()
    if first == "-m":
        sys.argv = rest
        runpy._run_module_as_main(rest[0])
        return
    sys.argv = [first, *rest]
    main = sys.modules["__main__"]
    main.__dict__.update(__file__=first, __doc__=None, __spec__=None, __name__="__main__")
    with open(first, "rb") as file:
        code = compile(file.read(), first, "exec")
    exec(code, main.__dict__)


def end(status: object) -> None:
    """Ends this process as the interpreter would after the program: waits for its threads, calls
    what it has registered, and exits. Returns where the interpreter has something to say. It would
    also take torch apart, which takes longer than most programs."""
    if status is not None and not isinstance(status, int):
        return
    threading._shutdown()
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
            if stream is not None and not stream.closed:
                stream.flush()
    except (OSError, ValueError):
        return
    os._exit((status or 0) & 0xFF)


if __name__ == "__main__":
    _, _, *others = sys.path  # this folder, the library
    preload()
    wanted = next_program()
    if wanted is not None:
        try:
            become(wanted, others)
        except SystemExit as error:
            end(error.code)
            raise
        except Exception:
            sys.excepthook(*sys.exc_info())
            end(1)
            sys.exit(1)
        end(None)
