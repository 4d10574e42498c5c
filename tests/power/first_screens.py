"""The first screen of every bug of the gallery, graded: does it alone say phase, ranks and place?

    PYTHONPATH=tests:lib/torch python -m power.first_screens            all bugs
    PYTHONPATH=tests:lib/torch python -m power.first_screens P1 G7      these

A reader who knows nothing else has these lines. Phase and place are graded against
`gallery/expected.py`, which was fixed before anything was measured; the axis against `AXES` below,
from what happened in the frameworks. A place that is not among the expected ones is wrong, which
counts against the tool twice.
"""

from __future__ import annotations

import dataclasses
import re
import sys
import tempfile
from fnmatch import fnmatchcase
from pathlib import Path

from gallery.expected import EXPECTED, Expected, module_of
from support.ttrace_cli import run_ttrace

from power.gallery_runs import LIMIT, Runs

COLUMNS = 100
MOST_LINES = 15

# How a screen names the part of a step that a kind belongs to.
PHASES = {
    "param": "before the step, parameters",
    "input": "forward",
    "output": "forward",
    "scalar": "forward",
    "loss": "loss",
    "grad_output": "backward",
    "grad_input": "backward",
    "param_grad": "backward",
    "main_grad": "backward, gradient synchronisation",
    "grad_norm": "gradient norm",
    "param_after_step": "optimizer",
}

# The axes of the mesh that each mechanism is about.
AXES = {
    "P1": "tp", "P2": "tp", "P3": "cp dp", "P4": "dp", "P5": "pp dp", "P6": "tp", "P7": "tp",
    "P8": "tp", "P9": "dp", "P10": "pp", "P11": "tp", "P12": "tp", "P13": "cp", "P14": "tp cp",
    "G1": "tp", "G2": "tp", "G3": "tp", "G4": "tp", "G5": "ep tp", "G6": "pp", "G7": "dp ep edp",
    "G8": "dp", "G9": "dp", "G10": "dp ep edp", "G11": "pp", "G12": "cp", "G13": "tp", "G14": "tp",
    "G15": "dp", "G16": "dp",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Grade:
    phase: bool
    ranks: bool
    place: bool
    lines: int

    @property
    def right(self) -> bool:
        return self.phase and self.ranks and self.place and self.lines <= MOST_LINES


def rows_of(screen: str) -> dict[str, str]:
    """Label -> what it says, folded lines joined."""
    rows: dict[str, str] = {"answer": ""}
    label = "answer"
    for line in screen.splitlines():
        found = re.match(
            r"  (where|proof|look at|first at|also|steps|depth|runs|remark) +(.*)", line
        )
        if line.startswith("  not checked"):
            label, text = "not checked", line[15:]
        elif found:
            label, text = found[1], found[2]
        else:
            text = line.strip()
        rows[label] = f"{rows.get(label, '')} {text}".strip()
    return rows


def grade(screen: str, bug: str, expected: Expected) -> Grade:
    rows = rows_of(screen)
    where = rows.get("where", "")
    input_of_model = expected.kind == "input" and "model" in expected.names[0]
    phases = {PHASES[kind] for kind in (expected.kind, *expected.also)}
    if input_of_model:
        phases = {"before the step, input data"}
    phase = where.split(";")[0] in phases
    named = set(re.findall(r"over (\w+)", rows["answer"])) - {"ranks"}
    said = bool(re.search(r"every rank|ranks? [{\d]", where)) or bool(named)
    axes = set(AXES[bug].split())
    if expected.kind == "param" and "layer" in expected.causes[0]:
        said = "pp" in rows["answer"]  # what is missing has no ranks
    first = rows.get("first at", "")
    place = is_place(first.split(" · ")[0].split(" (step")[0], rows["answer"], expected)
    return Grade(phase, said and named <= axes, place, screen.count("\n"))


def is_place(first: str, answer: str, expected: Expected) -> bool:
    """Whether the tensor that stands first, and the names in the sentence, are expected ones."""
    argument = re.fullmatch(r"\(model\)\[(.+)\]", first)
    if argument and f"the model's input {argument[1]} " not in answer:
        return False
    modules = [module_of(expected.kind, name) for name in expected.names]
    known = [*expected.names, *modules]
    if not any(fnmatchcase(first, pattern) for pattern in known):
        return False
    return (
        bool(argument)
        or first in answer
        or "all " in answer
        or any(
            fnmatchcase(word.strip("(),:;'s"), pattern.rstrip("*") + "*")
            for word in answer.split()
            for pattern in known
        )
    )


def screen_of(runs: Runs, bug: str, run: Path) -> str:
    expected = EXPECTED[bug]
    config = dataclasses.replace(expected.config, bug=(bug,))
    return run_ttrace(
        "compare",
        *runs.against(config, run),
        timeout=LIMIT,
        environment={"COLUMNS": str(COLUMNS)},
        screen=True,
    ).stdout


def main(names: list[str]) -> int:
    grades: dict[str, Grade] = {}
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(Path(folder))
        for bug in names or EXPECTED:
            run = runs.trace(dataclasses.replace(EXPECTED[bug].config, bug=(bug,)))
            screen = screen_of(runs, bug, run)
            runs.drop(run)
            grades[bug] = grade(screen, bug, EXPECTED[bug])
            verdict = "right" if grades[bug].right else f"NOT RIGHT {grades[bug]}"
            print(f"=== {bug}: {verdict}\n{screen}", flush=True)
    right = [bug for bug, one in grades.items() if one.right]
    print(f"{len(right)} of {len(grades)} first screens alone say phase, ranks and place")
    print("not right: " + (", ".join(sorted(set(grades) - set(right))) or "none"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
