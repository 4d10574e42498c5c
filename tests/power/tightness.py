"""How much larger than the error of a healthy run is what `ttrace audit` allows?

`python -m power.tightness SPECIFICATION RUN...` prints, per run and kind of expression, the median
and the extremes of bound over error, and the largest share of what is allowed. A bound of 3 times
the error gives away a third of a bug's size to noise.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support.reports import read_report
from support.ttrace_cli import run_ttrace

from power.tables import table

HEAD = ["run", "expressions", "tensors", "bound over error, median", "least", "most", "worst share"]
PRODUCTS = {"output": "products, forward", "grad_output": "products, to inputs"}
PRODUCTS["param_grad"] = "products, to weights"


def sort_of(kind: str, operations: str, by_probes: bool) -> str:
    if by_probes:
        return PRODUCTS.get(kind, "products, other")
    if "matmul" in operations or "attention" in operations:
        return "products inside"
    return "others"


def ratios(report: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """What each expression is, and its bound over its error; errors of 0 say nothing."""
    for result in report["results"]:
        for check in result.get("checks", []):
            if check["operation"] != "expression" or not check["error"]:
                continue
            operations = check["expected"].partition(" of ")[0]
            by_probes = check.get("by_probes", False)
            sort = sort_of(result["key"]["kind"], operations, by_probes)
            yield sort, check["bound"] / check["error"]


def rows_of(run: Path, specification: Path) -> list[list[Any]]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "audit.json"
        flags = ["--specification", specification, "--json", out]
        done = run_ttrace("audit", run, *flags, timeout=600)
        if done.returncode not in (0, 1, 3):
            raise RuntimeError(done.stderr)
        report = read_report(out)
    found: dict[str, list[float]] = {}
    for sort, ratio in ratios(report):
        found.setdefault(sort, []).append(ratio)
    rows = []
    for sort, values in sorted(found.items()):
        numbers = (statistics.median(values), min(values), max(values), 1 / min(values))
        rows.append([run.name, sort, len(values), *(f"{number:.2f}" for number in numbers)])
    share = f"{report['sharpness']['worst_share']:.2f}"
    whole = f"all: {report['verdict']}"
    rows.append([run.name, whole, len(report["results"]), "", "", "", share])
    return rows


def main(specification: str, *runs: str) -> None:
    rows = [row for run in runs for row in rows_of(Path(run), Path(specification))]
    print(table(HEAD, rows))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
