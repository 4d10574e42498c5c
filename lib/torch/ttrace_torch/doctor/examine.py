"""`python -m ttrace_torch doctor SCRIPT`: the checks, and how they are printed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ttrace_torch.compare.program import find_program
from ttrace_torch.doctor.imported import NoAnswerError, answer_of
from ttrace_torch.doctor.script import Script, UnclearScript
from ttrace_torch.version import __version__

_FINE, _NOTE, _WRONG = "✓", "–", "✗"
# How a line ends that says that the program is not here.
_NEEDED = "comparing needs the program somewhere"


class Found(NamedTuple):
    """One line: ✓ fine, – worth knowing, ✗ wrong."""

    mark: str
    name: str
    text: str


def main(arguments: Sequence[str]) -> int:
    """Returns 0 if nothing is wrong, 1 if something is, and 2 for wrong usage or no script."""
    if len(arguments) != 2 or arguments[0] != "doctor":
        print("usage: python -m ttrace_torch doctor SCRIPT", file=sys.stderr)
        return 2
    path = Path(arguments[1])
    try:
        script = Script(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is no text in UTF-8"
        print(f"ttrace_torch: {path}: {reason}", file=sys.stderr)
        return 2
    except (SyntaxError, ValueError) as error:
        print(
            f"ttrace_torch: {path}: is no Python that {_python()} reads: {error}", file=sys.stderr
        )
        return 2
    found = [*_installed(), _lines(script), _model(script, path)]
    wrong = [one.name for one in found if one.mark == _WRONG]
    compares = not any(one.text.endswith(_NEEDED) for one in found)
    ready = f"READY  {path} can be traced" + ("" if compares else f"; {_NEEDED}")
    print(f"NOT READY  {path}: {', '.join(wrong)}" if wrong else ready)
    for one in found:
        first, *rest = one.text.splitlines() or [""]
        print(f"  {one.mark} {one.name:<10} {first}")
        for line in rest:
            print(f"      {line}")
    if not wrong:
        print(f"next  TTRACE_OUT=ref.h5 python {path}")
        if compares:
            many = f"torchrun --nproc-per-node 2 {path}"
            print(f"or    ttrace run --candidate '{many}' -- python {path}")
    return 1 if wrong else 0


def _python() -> str:
    return f"Python {sys.version_info[0]}.{sys.version_info[1]}"


def _installed() -> Iterator[Found]:
    """What the job will run on."""
    lacking = [name for name in ("torch", "h5py", "numpy") if _is_lacking(name)]
    if lacking:
        text = f"{sys.executable} has no {', '.join(lacking)}; run the doctor with the Python that "
        yield Found(_WRONG, "torch", f"{text}trains, or: pip install {' '.join(lacking)}")
    else:
        yield _torch()
    yield _program()


def _torch() -> Found:
    try:
        import torch

        from ttrace_torch.private_names import PRIVATE_NAMES, is_there
    except (ImportError, OSError) as error:
        return Found(_WRONG, "torch", f"{sys.executable} cannot import it: {error}")
    names = [private for private in PRIVATE_NAMES if private.package == "torch"]
    absent = [private for private in names if not is_there(private)]
    if absent:
        lost = ", ".join(dict.fromkeys(private.used_for for private in absent))
        text = f"{torch.__version__} lacks private names that the collector reads; lost: {lost}"
        return Found(_NOTE, "torch", text)
    return Found(_FINE, "torch", f"{torch.__version__}, collector {__version__}")


def _program() -> Found:
    program = find_program()
    if program is None:
        text = f"no `ttrace` on PATH, beside this Python or in TTRACE; {_NEEDED}"
        return Found(_NOTE, "program", text)
    try:
        done = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=10, check=False
        )
        version, problem = done.stdout.split("\n")[0], done.stderr.strip().split("\n")[0]
    except (OSError, subprocess.TimeoutExpired) as error:
        version, problem = "", str(error)
    if version == f"ttrace {__version__}":
        return Found(_FINE, "program", f"{version}, {program}")
    if not version:
        # That of a collector installed alone says so.
        return Found(_NOTE, "program", f"{program} is none ({problem}); {_NEEDED}")
    return Found(_NOTE, "program", f"{program} says {version!r}, and the collector {__version__}")


def _lines(script: Script) -> Found:
    """Whether the script calls the collector, and if not, the lines to add."""
    if script.is_traced():
        return Found(_FINE, "lines", "the script makes a tracer")
    try:
        return Found(_WRONG, "lines", f"add these (patch -p0 takes them):\n{script.patch()}")
    except UnclearScript as reason:
        return Found(
            _WRONG,
            "lines",
            f"the collector is not called. {reason}\n"
            "import ttrace_torch as tt\n"
            "tracer = tt.trace(model, optimizer)   # when both are complete\n"
            "with tracer.step():                   # around a whole step, update included\n"
            "    loss = tracer.loss(loss)          # before its backward\n"
            "tracer.close()                        # behind the loop",
        )


def _model(script: Script, path: Path) -> Found:
    """What spoils a traced run of the model, if importing the script makes it."""
    if not script.has_guard():
        why = 'without `if __name__ == "__main__":` importing the script would train'
        return Found(_NOTE, "model", f"not looked at: {why}")
    try:
        answer = answer_of(path)
    except NoAnswerError as reason:
        return Found(_WRONG, "model", f"not looked at: importing the script {reason}")
    if "error" in answer:
        lacking = sorted(filter(_is_lacking, script.imports()))
        names = f" ({', '.join(lacking)} cannot be found)" if lacking else ""
        said = f"importing the script fails{names}: {answer['error']}"
        return Found(_WRONG if answer["ended"] else _NOTE, "model", f"not looked at: {said}")
    if not answer["models"]:
        return Found(_NOTE, "model", "not looked at: the script makes none when it is imported")
    name, kind, count, random = max(answer["models"], key=lambda one: one[2])
    if random:
        shown = ", ".join(random[:3]) + (f" and {len(random) - 3} more" if len(random) > 3 else "")
        text = f"{name}: dropout is active in {shown}; set it to 0 in traced runs, all of them"
        return Found(_WRONG, "model", text)
    return Found(_FINE, "model", f"{name}, a {kind} of {count:,} parameters")


def _is_lacking(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is None
    except (ImportError, ValueError):
        return False
