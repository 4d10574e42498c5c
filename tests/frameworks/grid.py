"""The grid of frameworks, versions and layouts: which cases run, and the table of what came out.

The quick half of the cases runs with all other tests; TTRACE_LONG=1, which scripts/frameworks.sh
sets, adds the long ones. Where TTRACE_TABLE names a file, every compared case adds a row to it.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter

import h5py
from support import long_cases
from support.long_cases import LONG

VERDICTS = {0: "match", 1: "diverged", 2: "unusable", 3: "inconclusive"}
# Of noise runs.
SEEDS = (1, 2, 3) if LONG else (1,)


def cases(what, quick, long):
    """The cases to run; those that are not are counted under `what`, and told of at the end."""
    return long_cases.chosen(what, quick, long, "scripts/frameworks.sh")


def manifest(path):
    """The manifest of a trace, a folder or a file."""
    if path.is_dir():
        return json.loads((path / "manifest.json").read_text(encoding="utf-8"))
    with h5py.File(path, "r") as file:
        return json.loads(file["manifest"][()])


def keys(path):
    """Keys of all tensors; what is recorded summed over micro-batches counts for each of them."""
    found = set()
    for entry in manifest(path)["tensors"]:
        together = entry.get("microbatches", {}).get("sum", [entry.get("microbatch")])
        for number in together:
            key = (entry["kind"], entry["name"], entry["step"], number, entry.get("call", 0))
            assert key not in found, key
            found.add(key)
    return found


def add_row(case, trace, verdict, answer):
    """Adds a case to the table. What `ttrace compare` said: exit code, first line of the text."""
    table = os.environ.get("TTRACE_TABLE")
    if not table:
        return
    told = manifest(trace)
    ranks = len(list(trace.glob("rank_*.h5"))) if trace.is_dir() else 1
    seconds = json.loads((trace.parent / f"seconds{ranks}.json").read_text(encoding="utf-8"))
    used = re.search(r"used (\S+ %)", answer)
    row = {
        "framework": told["run"]["framework"],
        "case": case,
        "ranks": ranks,
        "dtype": "/".join(sorted({e["dtype"] for e in told["tensors"] if e["kind"] == "param"})),
        "keys": Counter(key[0] for key in keys(trace)),
        "verdict": verdict,
        "closest": used[1] if used else answer,
        "seconds": round(seconds[trace.stem], 1),
    }
    with open(table, "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def markdown(rows):
    """The table, a row for each case; kinds by their number of tensors."""
    lines = [
        "| framework | case | ranks | dtype | keys | verdict | closest to its limit | seconds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        kinds = sorted(row["keys"].items(), key=lambda item: -item[1])
        keys = f"{sum(row['keys'].values())}: " + ", ".join(f"{n} {kind}" for kind, n in kinds)
        verdict = VERDICTS.get(row["verdict"], row["verdict"])
        cells = [row["framework"], row["case"], row["ranks"], row["dtype"], keys, verdict]
        cells += [row["closest"], row["seconds"]]
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as table:
        print(markdown([json.loads(line) for line in table]))
