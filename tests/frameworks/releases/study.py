"""Trains the newest releases of every package, healthy and with a planted bug, and writes a table.

Usage: study.py [--write PAGE] [--new] [NAME...]: packages, or one release as "trl 1.16.0", or all
without names. The other rows of PAGE stay as they are, and PAGE is written after every
row, so that --new goes on where a run was stopped. Exit code 1 if a row ends otherwise than it
should: a healthy run that does not match, a bug that is not found, a private name that is missing.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from releases import environments
from releases.environments import CannotInstallError
from releases.packages import PACKAGES
from support.ttrace_cli import REPOSITORY, run_ttrace

FRAMEWORKS = REPOSITORY / "tests" / "frameworks"
RELEASES, SEEDS = 4, (1, 2, 3)
COLUMNS = ("release", "with", "healthy", "planted bug", "names", "seen")
HEAD = f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}\n"
PAGE = """# Releases

The newest release of every package and the three before, each in an environment of its own, on CPU
with gloo: a healthy run on two processes against one process, and the same with a planted bug,
which is found where it says. Packages are tried with the newest torch. The names are those
that the collector touches, `python -m ttrace_torch.private_names`.

`scripts/releases.sh` brings this page up to date: it runs every row, writes it with the day, and
drops releases that have become older. `--new` runs only what stands here as not run or not at all;
names of packages or releases run these alone. The layouts and bugs are rows of
[packages.py](releases/packages.py).

The collector's own tests, `tests/torch`, pass on torch 2.14.1 with Python 3.11 and on torch 2.15.0
with Python 3.12 (2026-11-27): 953 of them on each, and the 4 that ask for Ray are skipped.
`tests/healthy` and `tests/matrix` pass on torch 2.15.0: 460 of them.

Where a cell fails, or a release lacks names:

- trl 1.15.0: GRPO takes its log-probabilities from a Triton kernel and asks for a GPU, with and
  without a tracer.
- trl 1.14.1: `trl/generation/vllm_client.py` imports `requests` whether vLLM is there or not, and
  nothing that pip installs beside it brings that; 1.14.2 asks first.
- torchtitan 0.2: the callback reads `torchtitan.trainer.Trainer`, which is of 0.3, as is the model
  that this study trains.
- megatron-fsdp 0.5 calls `forward` past the hooks of the model, so the wrapper is
  taken for it.
- transformers 5.22 has no `_resolve_parallel_plans`: `ttrace matrix` asks for `parallelize=`
  where a layout has tensor parallelism. Tracing does not read it.

"""
NAMES = """
import json, sys
from ttrace_torch.private_names import PRIVATE_NAMES, is_there
known = [private for private in PRIVATE_NAMES if private.package == sys.argv[1]]
print(json.dumps([len(known), [private.name for private in known if not is_there(private)]]))
"""
NOT_RUN = "not run"


def environment():
    path = os.pathsep.join([str(REPOSITORY / "lib" / "torch"), str(FRAMEWORKS)])
    # What pip installs for a user is no part of an environment of its own.
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "PYTHONNOUSERSITE": "1"}


def train(python, launcher, world, cases, out):
    """Trains the cases; why one failed stands in OUT/<name>.txt."""
    cases = {name: {**case, "may_fail": True} for name, case in cases.items()}
    command = [python, FRAMEWORKS / launcher, str(world), json.dumps(cases), out]
    out.mkdir()
    with open(out / "told.txt", "w+", encoding="utf-8") as told:
        try:
            subprocess.run(command, stdout=told, stderr=told, env=environment(), timeout=900)
        except subprocess.TimeoutExpired:
            told.write("\nTimeoutError: the training hangs")
        told.seek(0)
        # A process that a signal ends is an exception, and no error, in the words of torch.
        named = [line for line in told if "Error" in line or "Exception: " in line]
        errors = named or ["it ended early"]
    for name in cases:
        trace = out / (f"{name}.h5" if world == 1 else name)
        if not trace.exists() and not (out / f"{name}.txt").exists():
            (out / f"{name}.txt").write_text(errors[-1], encoding="utf-8")


def compare(references, runs, name):
    """What `ttrace compare` says of a run in JSON, or why there is none."""
    for told in (references / "reference.txt", runs / f"{name}.txt"):
        if told.exists():
            return told.read_text(encoding="utf-8").strip().splitlines()[0]
    noise = [references / f"noise{seed}.h5" for seed in SEEDS]
    report = runs / f"{name}.json"
    done = run_ttrace(
        "compare",
        references / "reference.h5",
        runs / name,
        *("--noise", *(path for path in noise if path.exists())),
        *("--json", report),
        timeout=900,
    )
    if not report.exists():
        return done.stderr.strip()
    return json.loads(report.read_text(encoding="utf-8"))


def first_of(report):
    """Where it first diverges, as `name · kind`."""
    keys = {result["id"]: result["key"] for result in report["results"]}
    for finding in report["findings"][:1]:
        key = keys[finding["id"]]
        return f"{key['name']} · {key['kind']}"
    return ""


def cells_of(package, python, folder):
    """The healthy cell and that of the planted bug, and whether both are as they should be."""
    noise = {f"noise{seed}": {**package.reference, "noise": seed} for seed in SEEDS}
    train(python, package.launcher, 1, {"reference": package.reference, **noise}, folder / "one")
    cases = {"healthy": package.healthy, "planted": package.planted}
    together = [[name] for name in cases] if package.apart else [list(cases)]
    runs = {}
    for number, names in enumerate(together):
        out = folder / f"two{number}"
        train(python, package.launcher, 2, {name: cases[name] for name in names}, out)
        runs |= dict.fromkeys(names, out)
    cells, sound = [], True
    for name in cases:
        report = compare(folder / "one", runs[name], name)
        if isinstance(report, str):
            cells.append(f"fails: {report[:200]}")
            sound = False
            continue
        first = first_of(report)
        cell = f"{report['verdict'].upper()}, {report['counts']['total']} tensors"
        cells.append(f"{cell}, first at {first}" if first else cell)
        expected = report["verdict"] == ("match" if name == "healthy" else "diverged")
        sound = sound and expected and (name == "healthy" or package.found in first)
    return cells, sound


def names_of(name, python):
    """The cell of names, and whether none is missing."""
    asked = [python, "-c", NAMES, name]
    done = subprocess.run(asked, capture_output=True, text=True, env=environment(), check=False)
    if done.returncode:
        return "not checked", False
    known, missing = json.loads(done.stdout.splitlines()[-1])
    if missing:
        return f"lacks {', '.join(missing)}", False
    return f"all {known}" if known else "none used", True


class Study:
    """Environments of one run, in `folder`. One torch is installed at a time."""

    def __init__(self, folder):
        self._folder = folder
        self._base = None

    def row(self, name, release):
        """The cells of a release, and whether they are as they should be."""
        package = PACKAGES[name]
        day = datetime.date.today().isoformat()
        place = self._folder / f"{name}-{release}"
        try:
            version = environments.python_for(name, release)
            torch = release if name == "torch" else environments.releases("torch")[0]
            base = self._with_torch(version, torch)
            python = base if name == "torch" else environments.upon(place, version, base)
            if name != "torch":
                options = ["--no-deps"] if package.alone else []
                options += ["--no-build-isolation"] if package.built else []
                if package.beside:
                    environments.install(python, *package.beside)
                environments.install(python, *options, f"{name}=={release}")
            with tempfile.TemporaryDirectory() as traces:
                cells, sound = cells_of(package, python, Path(traces))
            names, complete = names_of(name, python)
        except CannotInstallError as error:
            return [f"{name} {release}", "", f"{NOT_RUN}: {error}", "", "", day], True
        finally:
            shutil.rmtree(place, ignore_errors=True)
        beside = f"Python {version}" + ("" if name == "torch" else f", torch {torch}")
        return [f"{name} {release}", beside, *cells, names, day], sound and complete

    def _with_torch(self, python, torch):
        if self._base is None or self._base[0] != (python, torch):
            place = self._folder / "torch"
            shutil.rmtree(place, ignore_errors=True)
            self._base = None
            self._base = (python, torch), environments.with_torch(place, python, torch)
        return self._base[1]


def wanted(names):
    """Package -> its newest releases, of the packages that are named, and what of them to train:
    (package, release), those with the newest torch together, the newest of each package first."""
    packages = [name for name in PACKAGES if not names or name in {n.split()[0] for n in names}]
    newest = {name: environments.releases(name)[:RELEASES] for name in packages}
    pairs = [(name, release) for name, releases in newest.items() for release in releases]
    chosen = [pair for pair in pairs if not names or {pair[0], " ".join(pair)} & set(names)]
    first = environments.releases("torch")[0]

    def place(pair):
        name, release = pair
        return name == "torch" and release != first, newest[name].index(release)

    return newest, sorted(chosen, key=place)


def lines_of(page):
    """The page's lines, by package and release."""
    text = page.read_text(encoding="utf-8") if page and page.exists() else ""
    lines = text.partition(HEAD)[2].splitlines(keepends=True)
    return {line.split(" | ")[0].removeprefix("| "): line for line in lines}


def page_of(lines, newest):
    """The page: the newest releases of the packages that were looked up, and all other lines."""
    shown = []
    for name in PACKAGES:
        if name in newest:
            rows = [f"{name} {release}" for release in newest[name]]
            shown += [lines.get(row, f"| {row} |  | {NOT_RUN} yet |  |  |  |\n") for row in rows]
        else:
            shown += [line for row, line in lines.items() if row.split()[0] == name]
    return PAGE + HEAD + "".join(shown)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", type=Path)
    parser.add_argument("--new", action="store_true")
    parser.add_argument("--folder", type=Path, help="where environments are made, and deleted")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    newest, chosen = wanted(given.names)
    lines, unsound = lines_of(given.write), []
    if given.folder is not None:
        given.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        study = Study(Path(folder))
        for name, release in chosen:
            row = f"{name} {release}"
            if given.new and f"| {NOT_RUN}" not in lines.get(row, f"| {NOT_RUN}"):
                continue
            cells, sound = study.row(name, release)
            lines[row] = "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |\n"
            print(lines[row], end="", flush=True)
            if not sound:
                unsound.append(row)
            if given.write:
                given.write.write_text(page_of(lines, newest), encoding="utf-8")
    if unsound:
        sys.exit(f"otherwise than it should be: {', '.join(unsound)}")


if __name__ == "__main__":
    main()
