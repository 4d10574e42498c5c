"""What a reader who has only the first screen can tell: 50 screens, and grades of answers.

    scripts/first_screens.sh make FOLDER KEY [--seed N] [--only CASE]...
    scripts/first_screens.sh grade ANSWERS KEY

`make` writes NN.txt and README.md into FOLDER, for readers, and what is right into the file KEY,
which readers do not get. A screen is what `ttrace compare` prints, as the README calls it.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from gallery.agreement import SEEDS
from power.gallery_runs import LIMIT, Runs
from support.ttrace_cli import run_ttrace

from screens.cases import Case, cases
from screens.grading import Answer, AnswerError, grade, results_table
from screens.key import Changed, Right

COLUMNS = 100
SEED = 34
INSTRUCTIONS = Path(__file__).with_name("instructions.md")


def make(folder: Path, key: Path, seed: int, only: list[str]) -> None:
    chosen = list(cases(seed))
    order = random.Random(seed).sample(range(1, len(chosen) + 1), len(chosen))
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(INSTRUCTIONS, folder / "README.md")
    told: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        runs = Runs(Path(scratch))
        healthy = functools.cache(runs.trace)
        for place, case in sorted(zip(order, chosen, strict=True), key=lambda pair: pair[0]):
            if only and case.name not in only:
                continue
            number = f"{place:02}"
            with case.planted():
                run = runs.trace(case.config)
            changed = Changed.between(healthy(case.healthy), run)
            (folder / f"{number}.txt").write_text(screen(runs, case, run), encoding="utf-8")
            told[number] = _key(case, changed)
            runs.drop(run)
            print(f"{number} of {len(chosen)}", file=sys.stderr, flush=True)
    key.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def screen(runs: Runs, case: Case, run: Path) -> str:
    """What is printed, with the command, in a folder where every name is the README's."""
    reference, _, *noise = runs.against(case.healthy, run)
    names = [f"noise{seed}.h5" for seed in SEEDS]
    folder = run.parent / "job"
    folder.mkdir()
    run.rename(folder / "run")
    files = [reference, *noise[1::2]]
    for name, file in zip(("ref.h5", *names), files, strict=True):
        os.link(file, folder / name)
    command = ["compare", "ref.h5", "run/", "--noise", *names]
    done = run_ttrace(
        *command, timeout=LIMIT, environment={"COLUMNS": str(COLUMNS)}, cwd=folder, screen=True
    )
    (folder / "run").rename(run)
    return f"$ ttrace {' '.join(command)}\n{done.stdout}{done.stderr}"


def _key(case: Case, changed: Changed) -> dict[str, Any]:
    faults = [
        dataclasses.asdict(dataclasses.replace(right, ranks=changed.of(kinds, right)))
        for kinds, right in case.rights
    ]
    return {
        "group": case.group,
        "case": case.name,
        "faults": faults,
        "names": changed.names,
    }


def graded(answers: Path, key: Path) -> list[str]:
    told = json.loads(answers.read_text(encoding="utf-8"))
    right = json.loads(key.read_text(encoding="utf-8"))
    if not isinstance(told, dict) or set(told) - set(right):
        raise AnswerError(f"{answers}: has one member for each screen, 01 to {max(right)}")
    grades = {}
    for number, case in right.items():
        given = [Answer.from_json(number, entry) for entry in told.get(number, [])]
        faults = [Right.from_json(fault) for fault in case["faults"]]
        grades[number] = grade(given, faults, case["names"])
    groups = {number: case["group"] for number, case in right.items()}
    return results_table(grades, groups, {n: case["case"] for n, case in right.items()})


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make")
    making.add_argument("folder", type=Path)
    making.add_argument("key", type=Path)
    making.add_argument("--seed", type=int, default=SEED)
    making.add_argument("--only", action="append", default=[], metavar="CASE")
    grading = commands.add_parser("grade")
    grading.add_argument("answers", type=Path)
    grading.add_argument("key", type=Path)
    options = parser.parse_args(arguments)
    if options.command == "make":
        make(options.folder, options.key, options.seed, options.only)
        return 0
    try:
        print("\n".join(graded(options.answers, options.key)))
    except (AnswerError, OSError, json.JSONDecodeError) as error:
        print(f"first_screens: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
