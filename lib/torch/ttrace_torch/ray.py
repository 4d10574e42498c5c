"""`python -m ttrace_torch.ray REF RUN`: a comparison or an audit on the nodes of a Ray cluster.

Each part is a task on a node that sees the files as the driver does; a task whose worker dies is
tried again, on another such node where there is one. `ttrace report merge` then answers here.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ttrace_torch.compare.program import find_program
from ttrace_torch.errors import TraceError

FINE, WRONG, UNUSABLE, INCONCLUSIVE = 0, 1, 2, 3
_ANSWERS = (FINE, WRONG, INCONCLUSIVE)
_EPILOG = """\
All other flags are those of `ttrace compare` and `ttrace audit`, such as --noise and
--specification. Every node that takes part sees the files under the same paths, in the folder that
this is called from, and has ttrace; others are left out, and told.

Exit codes: those of `ttrace report merge`. A part that failed on every try is missing in the
report, which is then inconclusive (3) and names it.
"""


class RayError(TraceError):
    """No node can do the work, or the program refuses it."""


@dataclasses.dataclass(frozen=True)
class Work:
    """What every part does. command: "compare" or "audit", with its flags but the part's."""

    command: tuple[str, ...]
    folder: str
    traces: tuple[str, ...]
    parts: int
    threads: int
    tries: int


@dataclasses.dataclass(frozen=True)
class Done:
    """What a part printed, and its report in JSON."""

    code: int
    told: str
    report: str


def state_of(traces: Sequence[str], folder: str) -> dict[str, tuple[int, int]]:
    """Size and time of the files of the traces, by path; empty where the folder is not there."""
    found: dict[str, tuple[int, int]] = {}
    for trace in traces:
        path = Path(folder) / trace
        for file in filter(_is_of_trace, path.iterdir()) if path.is_dir() else [path]:
            if file.is_file():
                facts = file.stat()
                found[str(file)] = (facts.st_size, facts.st_mtime_ns)
    return found


def _is_of_trace(file: Path) -> bool:
    """Whether a file of a run's folder is part of the trace, of whatever storage."""
    return file.name == "manifest.json" or re.fullmatch(r"rank_\d+\.\w+", file.name) is not None


def do_part(work: Work, part: int) -> Done:
    """Runs one part here. Raises OSError where the program cannot be started."""
    program = find_program()
    if program is None:
        raise FileNotFoundError("the program ttrace is not on this node")
    given = [*work.command, "--mpi", "off", "--threads", str(work.threads)]
    done = subprocess.run(
        [program, *given, "--part", f"{part}/{work.parts}", "--json", "-", "--quiet"],
        cwd=work.folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    return Done(done.returncode, done.stderr.strip(), done.stdout)


def main(arguments: Sequence[str] | None = None) -> int:
    given, flags = _parser().parse_known_args(arguments)
    try:
        return _run(given, flags)
    except RayError as error:
        print(f"ttrace_torch.ray: {error}", file=sys.stderr)
        return UNUSABLE
    except KeyboardInterrupt:
        print("ttrace_torch.ray: interrupted; nothing was judged", file=sys.stderr)
        return INCONCLUSIVE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m ttrace_torch.ray",
        usage="python -m ttrace_torch.ray [REF] RUN [--audit] [flags]",
        description="compare or audit traces on the nodes of a Ray cluster",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("traces", nargs="+", metavar="TRACE", help="REF and RUN; with --audit RUN alone")
    add("--audit", action="store_true", help="judge RUN by itself")
    add("--address", help="of the cluster (RAY_ADDRESS; without one, this machine)")
    add("--parts", type=int, metavar="N", help="how many (one for every --threads cores)")
    add("--threads", type=int, default=1, metavar="N", help="of every part (1)")
    add("--tries", type=int, default=3, metavar="N", help="of a part whose worker dies (3)")
    for name in ("--json", "--html", "--markdown", "--junit", "--fail-on", "--since", "--format"):
        add(name, metavar="VALUE", help=argparse.SUPPRESS)
    add("--known", action="append", help=argparse.SUPPRESS)
    add("--require", action="append", help=argparse.SUPPRESS)
    add("--all", action="store_true", help=argparse.SUPPRESS)
    add("--quiet", action="store_true", help="print the first line alone")
    return parser


def _run(given: argparse.Namespace, flags: list[str]) -> int:
    count = 1 if given.audit else 2
    if len(given.traces) != count:
        raise RayError(
            f"found {len(given.traces)} traces: give "
            + ("one" if given.audit else "a reference and a run, or --audit and a run")
            + ", before the flags of ttrace"
        )
    for name in ("parts", "threads", "tries"):
        value = getattr(given, name)
        if value is not None and value < 1:
            raise RayError(f"--{name} {value}: give at least 1")
    program = find_program()
    if program is None:
        raise RayError("the program ttrace is not here: put it on PATH, or set TTRACE to its path")
    try:
        import ray
    except ImportError as error:
        raise RayError("Ray is not installed here (pip install ray)") from error
    command = ("audit" if given.audit else "compare", *given.traces, *flags)
    # Ray prints what befalls its workers to stdout, where the answer belongs.
    with contextlib.redirect_stdout(sys.stderr):
        _join(ray, given.address)
        try:
            work = Work(command, os.getcwd(), tuple(given.traces), 1, given.threads, given.tries)
            nodes = _nodes_for(ray, work)
            cores = sum(int(node["Resources"].get("CPU", 0)) // given.threads for node in nodes)
            work = dataclasses.replace(work, parts=given.parts or max(cores, 1))
            tell = _tell(given.quiet)
            tell(f"{work.parts} parts on {len(nodes)} of {len(_alive(ray))} nodes")
            reports = Parts(ray, work, [node["NodeID"] for node in nodes], tell).all()
        finally:
            ray.shutdown()
    if not reports:
        raise RayError("no part was finished, so there is nothing to merge")
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for part, report in sorted(reports.items()):
            files.append(Path(folder) / f"part{part}.json")
            files[-1].write_text(report, encoding="utf-8")
        merge = [program, "report", "merge", *map(str, files), *_of_merge(given)]
        return subprocess.run(merge, check=False).returncode


def _join(ray: Any, address: str | None) -> None:
    options: dict[str, Any] = {"address": address, "log_to_driver": False, "logging_level": "ERROR"}
    if address is None and not os.environ.get("RAY_ADDRESS"):
        options["include_dashboard"] = False
    try:
        ray.init(**options)
    except Exception as error:  # of many kinds, by what is wrong with the cluster
        raise RayError(f"Ray cannot be used: {error}") from error


def _of_merge(given: argparse.Namespace) -> list[str]:
    """The flags of the answer, which the merge takes."""
    words = ["--all"] if given.all else []
    words += ["--quiet"] if given.quiet else []
    for name in ("json", "html", "markdown", "junit", "fail_on", "since", "format"):
        value = getattr(given, name)
        words += [] if value is None else [f"--{name.replace('_', '-')}", value]
    for name in ("known", "require"):
        for value in getattr(given, name) or ():
            words += [f"--{name}", value]
    return words


def _tell(quiet: bool) -> Callable[[str], None]:
    begun = time.monotonic()

    def told(line: str) -> None:
        if not quiet:
            print(f"{time.monotonic() - begun:6.1f} s  {line}", file=sys.stderr, flush=True)

    return told


def _alive(ray: Any) -> list[dict[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"]]


def _on(node: str) -> Any:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node_id=node, soft=False)


def _nodes_for(ray: Any, work: Work) -> list[dict[str, Any]]:
    """The nodes that have the program and see the files as they are here, most cores first."""
    here = state_of(work.traces, work.folder)

    def probe(traces: Sequence[str], folder: str) -> tuple[bool, dict[str, tuple[int, int]]]:
        return find_program() is not None, state_of(traces, folder)

    task = ray.remote(probe)
    nodes = _alive(ray)
    asked = [
        task.options(num_cpus=0, scheduling_strategy=_on(node["NodeID"])).remote(
            work.traces, work.folder
        )
        for node in nodes
    ]
    usable = []
    for node, answer in zip(nodes, asked):
        name = node["NodeManagerHostname"]
        try:
            has_program, seen = ray.get(answer)
        except Exception as error:  # whatever a node says instead of an answer
            print(f"ttrace_torch.ray: {name} is left out: {error}", file=sys.stderr)
            continue
        lacking = sorted(set(here.items()) - set(seen.items()))
        if not has_program:
            print(f"ttrace_torch.ray: {name} is left out: it has no ttrace", file=sys.stderr)
        elif lacking:
            print(
                f"ttrace_torch.ray: {name} is left out: {lacking[0][0]} is not there as it is here",
                file=sys.stderr,
            )
        else:
            usable.append(node)
    if not usable:
        raise RayError("no node has ttrace and sees the files under the paths that they have here")
    return sorted(usable, key=lambda node: -node["Resources"].get("CPU", 0))


class Parts:
    """The parts of a work, each on one node after another until one has finished it."""

    def __init__(
        self, ray: Any, work: Work, nodes: Sequence[str], tell: Callable[[str], None]
    ) -> None:
        self._ray = ray
        self._work = work
        self._nodes = itertools.cycle(nodes)
        self._tell = tell
        self._task = ray.remote(do_part)
        self._tries: dict[int, int] = {}
        self._running: dict[Any, int] = {}

    def all(self) -> dict[int, str]:
        """Number of the part -> its report in JSON, of those that were finished.

        Throws RayError where the program refuses its arguments or the files.
        """
        reports: dict[int, str] = {}
        for part in range(1, self._work.parts + 1):
            self._begin(part)
        while self._running:
            (ended,), _ = self._ray.wait(list(self._running), num_returns=1)
            part = self._running.pop(ended)
            failure, done = "", None
            try:
                done = self._ray.get(ended)
            except Exception as error:  # of Ray, or of the worker: it says which
                failure = (str(error).strip() or type(error).__name__).splitlines()[0]
            if done is not None and done.code == UNUSABLE:
                raise RayError(done.told or f"part {part} cannot be done")
            if done is not None and done.code in _ANSWERS:
                reports[part] = done.report
                self._tell(f"part {part} of {self._work.parts} is done")
                continue
            self._again(part, failure or f"ttrace ended with {done.code if done else 'nothing'}")
        return reports

    def _begin(self, part: int) -> None:
        self._tries[part] = self._tries.get(part, 0) + 1
        options = self._task.options(
            num_cpus=self._work.threads,
            max_retries=0,
            scheduling_strategy=_on(next(self._nodes)),
        )
        self._running[options.remote(self._work, part)] = part

    def _again(self, part: int, failure: str) -> None:
        which = f"part {part} of {self._work.parts}"
        if self._tries[part] >= self._work.tries:
            self._tell(f"{which} failed {self._tries[part]} times, and is missing: {failure}")
            return
        self._tell(f"{which} is tried again: {failure}")
        self._begin(part)


if __name__ == "__main__":
    sys.exit(main())
