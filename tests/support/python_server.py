"""What `python_runs` forks programs from. Reads a request a line; answers with the process group of
the program, and when it has ended with its exit code."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import json
import os
import runpy
import sys

# Nothing of these begins a thread or reads a variable that a program sets.
PRELOADED = (
    "h5py",
    "torch.distributed.fsdp",
    "torch.distributed.pipelining",
    "torch.distributed.tensor.parallel",
    "transformers",
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
    gc.freeze()


def next_program() -> dict | None:
    """Serves requests; returns in each fork with what it runs, and without when there are none."""
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(2, 1)
    for line in iter(requests.readline, ""):
        child = os.fork()
        if child == 0:
            requests.close()
            answers.close()
            return json.loads(line)
        print(child, file=answers, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), file=answers, flush=True)
    return None


def become(program: dict, base: list[str]) -> None:
    """Makes this process what the interpreter would be. base: sys.path without what was added."""
    os.setsid()
    for descriptor, path in enumerate(program["streams"], start=1):
        file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(file, descriptor)
        os.close(file)
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


if __name__ == "__main__":
    _, _, *others = sys.path  # this folder, the library
    preload()
    wanted = next_program()
    if wanted is not None:
        become(wanted, others)
