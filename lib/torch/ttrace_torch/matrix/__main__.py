"""`python -m ttrace_torch.matrix JOB.py --layouts ddp2 fsdp4`."""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from ttrace_torch.matrix.errors import MatrixError
from ttrace_torch.matrix.job import Job
from ttrace_torch.matrix.judge import UNUSABLE
from ttrace_torch.matrix.run import Settings, make_job, run_matrix
from ttrace_torch.matrix.script import Script, run_scripts

_EPILOG = """\
JOB.py defines build(), which makes the model, and batches, the micro-batches of a step; and where
they are needed loss, optimizer, parallelize, pipeline, steps, seed, threads and layouts, as
arguments of ttrace_torch.testing.assert_equivalent. JOB.py:FUNCTION names a function that returns
them as a dictionary. A script of your own: script, its path, and arguments(layout), what it is
called with; layouts are then any words whose numbers are ranks, or ranks by name.

Exit codes: 0 all layouts match and hold, 1 one diverged or is broken, 2 one could not be run, or
the arguments cannot be used, 3 one is inconclusive.
"""
_OF_JOB = ("loss", "optimizer", "parallelize", "pipeline", "steps", "seed", "threads")


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    settings = Settings(
        given.noise,
        given.limit,
        given.cache if given.cache is not None else not given.no_cache,
        given.out,
        given.most_ranks,
        given.backend,
    )
    try:
        job, layouts = _read(given.job)
        asked, told = given.layouts or layouts, _tell(given.quiet)
        if isinstance(job, Script):
            found = run_scripts(job, asked, settings, told)
        else:
            found = run_matrix(job, asked, settings, told)
    except MatrixError as error:
        for line in str(error).splitlines():
            print(f"ttrace_torch.matrix: {line}", file=sys.stderr)
        return UNUSABLE
    except KeyboardInterrupt:
        print("ttrace_torch.matrix: interrupted; the ranks were ended", file=sys.stderr)
        return 3
    print(found.headline if given.quiet else found)
    return found.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m ttrace_torch.matrix",
        description="train a model in many layouts, and hold each against one process",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("job", metavar="JOB.py[:FUNCTION]", help="the model and its micro-batches")
    add("--layouts", nargs="+", metavar="LAYOUT", help="such as ddp2 fsdp2+tp2 tp2+sp pp2:1f1b")
    add("--noise", type=int, default=3, metavar="N", help="noise runs of the reference (3)")
    add("--limit", type=float, default=600.0, metavar="S", help="most seconds for a layout (600)")
    add("--cache", metavar="FOLDER", help="where references are kept (~/.cache/ttrace/matrix)")
    add("--no-cache", action="store_true", help="make the reference anew, and keep it nowhere")
    add("--out", metavar="FOLDER", help="keep the traces and reports of all layouts there")
    add("--most-ranks", type=int, metavar="N", help="most processes (8, or twice the cores)")
    add("--backend", choices=("gloo", "nccl"), help="nccl where every rank gets a device")
    add("--quiet", action="store_true", help="print the first line alone")
    return parser


def _tell(quiet: bool) -> Any:
    begun = time.monotonic()

    def told(line: str) -> None:
        if not quiet:
            print(f"{time.monotonic() - begun:6.1f} s  {line}", file=sys.stderr, flush=True)

    return told


def _read(text: str) -> tuple[Job | Script, Any]:
    """The job of a file, and the layouts that it names. Throws MatrixError."""
    name, _, function = text.partition(".py:")
    path = Path(f"{name}.py" if function else text)
    module = _loaded(path)
    if function:
        if not callable(getattr(module, function, None)):
            raise MatrixError(f"{path} has no function {function!r}")
        found = getattr(module, function)()
        if not isinstance(found, dict):
            raise MatrixError(f"{path}: {function}() returned a {type(found).__name__}, no dict")
    else:
        found = vars(module)
    if "script" in found and "arguments" in found:
        script = Script(path.parent / found["script"], found["arguments"], found.get("threads", 1))
        return script, found.get("layouts", ())
    for needed in ("build", "batches"):
        if needed not in found:
            where = f"what {function}() returned" if function else "it"
            raise MatrixError(f"{path}: {where} has no {needed!r}, which a matrix needs")
    known = {name: found[name] for name in _OF_JOB if name in found}
    return make_job(found["build"], found["batches"], **known), found.get("layouts", ())


def _loaded(path: Path) -> ModuleType:
    """The file as a module, which ranks that are new processes can import, too."""
    if not path.is_file():
        raise MatrixError(f"{path}: no such file")
    sys.path.insert(0, str(path.resolve().parent))
    found = importlib.util.find_spec(path.stem) if path.stem.isidentifier() else None
    if found is None or Path(found.origin or "").resolve() != path.resolve():
        raise MatrixError(f"{path}: cannot be imported as {path.stem!r}; give it another name")
    try:
        return importlib.import_module(path.stem)
    except Exception as error:
        raise MatrixError(f"{path}: {type(error).__name__}: {error}") from error


if __name__ == "__main__":
    sys.exit(main())
