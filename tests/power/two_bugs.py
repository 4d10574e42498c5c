"""Pairs of bugs of the gallery in one run: how often is the second one named too?

    scripts/two_bugs.sh            writes tests/power/TWO_BUGS.md

A bug is named if a finding, or a second suspect, is one of the tensors that it makes wrong first.
"""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gallery.agreement import ALONE, SEEDS
from gallery.config import Config
from gallery.expected import EXPECTED
from gallery.together import traced
from support.reports import by_id, findings, read_report
from support.ttrace_cli import REPOSITORY, run_ttrace

TABLE = REPOSITORY / "tests" / "power" / "TWO_BUGS.md"

TP_SP = Config(tp=2, sp=True, microbatches=4)
CP = Config(cp=2, microbatches=4)
PAIRS: list[tuple[str, str, Config]] = [
    ("P12", "P3", dataclasses.replace(TP_SP, cp=2)),
    ("P12", "P13", dataclasses.replace(TP_SP, cp=2)),
    ("P12", "G12", dataclasses.replace(TP_SP, cp=2)),
    ("P12", "P4", dataclasses.replace(TP_SP, dp=2)),
    ("P12", "G9", dataclasses.replace(TP_SP, dp=2)),
    ("P12", "G15", dataclasses.replace(TP_SP, dp=2)),
    ("P12", "P9", dataclasses.replace(TP_SP, dp=2, zero=True)),
    ("P12", "G16", dataclasses.replace(TP_SP, dp=2, zero=True, ffn_hidden=128)),
    ("P12", "G6", dataclasses.replace(TP_SP, pp=2, layers=4)),
    ("P12", "P2", dataclasses.replace(TP_SP, recompute=True)),
    ("P12", "P6", dataclasses.replace(TP_SP, experts=4, seed=1)),
    ("P3", "P13", CP),
    ("P3", "G12", CP),
    ("P13", "G12", CP),
    ("P13", "P4", dataclasses.replace(CP, dp=2)),
    ("G12", "G15", dataclasses.replace(CP, dp=2)),
    ("P3", "G9", dataclasses.replace(CP, dp=2)),
    ("G6", "P4", Config(pp=2, dp=2, layers=4, microbatches=4)),
    ("G6", "P13", Config(pp=2, cp=2, layers=4, microbatches=4)),
    ("P9", "G16", Config(dp=2, zero=True, microbatches=4)),
]


@dataclass
class Named:
    """How the report names a bug: "finding", "suspect" or nothing."""

    bug: str
    how: str


def named(bug: str, report: dict[str, Any]) -> Named:
    is_it = EXPECTED[bug].covers
    if any(is_it(finding["key"]) for finding in findings(report) if "key" in finding):
        return Named(bug, "finding")
    results = by_id(report)
    if any(is_it(results[suspect["id"]]["key"]) for suspect in report["suspects"]):
        return Named(bug, "suspect")
    return Named(bug, "")


class Study:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.references: dict[tuple[Config, int], Path] = {}

    def reference(self, config: Config, seed: int) -> Path:
        alone = dataclasses.replace(config, **ALONE, bug=())
        if (alone, seed) not in self.references:
            trace = self.folder / f"ref{len(self.references)}.h5"
            perturbed = dataclasses.replace(alone, disturb=seed, trace=str(trace))
            self.references[alone, seed] = traced(perturbed, trace)
        return self.references[alone, seed]

    def compared(self, config: Config) -> dict[str, Any]:
        run = traced(config, Path(tempfile.mkdtemp(dir=self.folder)) / "run")
        noise = [flag for seed in SEEDS for flag in ("--noise", self.reference(config, seed))]
        out = run.parent / "report.json"
        run_ttrace("compare", self.reference(config, 0), run, *noise, "--json", out, "--quiet")
        return read_report(out)


def row(first: str, second: str, config: Config, report: dict[str, Any]) -> str:
    how = [named(bug, report) for bug in (first, second)]
    axes = {name: size for name, size in config.mesh_sizes.items() if size > 1}
    layout = " ".join(f"{name} {size}" for name, size in axes.items())
    told = " | ".join(f"{one.bug}: {one.how or 'not named'}" for one in how)
    return f"| {layout} | {told} | {len(report['frontier'])} | {len(report['suspects'])} |"


def main() -> None:
    rows = []
    both = 0
    neither = 0
    with tempfile.TemporaryDirectory() as folder:
        study = Study(Path(folder))
        for first, second, config in PAIRS:
            report = study.compared(dataclasses.replace(config, bug=(first, second)))
            how = [named(bug, report).how for bug in (first, second)]
            both += all(how)
            neither += not any(how)
            rows.append(row(first, second, config, report))
            print(rows[-1], flush=True)
    lines = [
        "# Two bugs in one run",
        "",
        "By scripts/two_bugs.sh: pairs of bugs of tests/gallery, compared with three noise runs. A",
        "bug is named if a finding or a second suspect is among the tensors that it makes wrong",
        "first.",
        "",
        f"Both are named in {both} of {len(PAIRS)} pairs, neither in {neither}.",
        "",
        "| layout | one | the other | findings | second suspects |",
        "| --- | --- | --- | --- | --- |",
        *rows,
    ]
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(lines[5])
    sys.exit(0 if neither == 0 else 1)


if __name__ == "__main__":
    main()
