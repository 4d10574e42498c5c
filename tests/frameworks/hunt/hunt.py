"""Trains every row of the hunt, compares it with one process, and prints one table.

Usage: hunt.py [--write PAGE] [NAME...]: the rows whose name has one of the words in it, or all.
With names, the other rows of PAGE stay as they are. Exit code 1 if a row ends otherwise than it
says.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import agreement
from hunt import newest
from hunt.rows import ROWS
from support.text_report import answer
from support.ttrace_cli import run_ttrace

SEEDS = (1, 2, 3)
FAILED = "fails"
HEAD = "| row | ranks | exit | first line | first blamed | cause |\n|---|---|---|---|---|---|\n"
PAGE = """# The hunt

Released packages over their layouts, each against one process: torch 2.13.0, transformers 5.23.0,
accelerate 1.15.0, peft 0.21.2, trl 1.16.0, DeepSpeed 0.19.8, Megatron-core 0.16.1, on CPU with
gloo. A row whose name says a release is of that one; the newest are with torch 2.15.0 and Python
3.12 ([newest.py](hunt/newest.py)). `scripts/hunt.sh --write tests/frameworks/HUNT.md` runs it and
writes this page; with names of rows it runs these, and leaves the others as they stand.
A row is one entry of a `*_rows.py` in [hunt](hunt); where it does not match, its cause stands in
the last column. Exit `fails` is a row that raises or that `trace` refuses, in its own words.

"""


def reference_name(row):
    """One reference serves all rows that say the same of it."""
    told = json.dumps(row["reference"], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:12]


def with_noise(case):
    return {"": case, **{f"_noise{seed}": {**case, "noise": seed} for seed in SEEDS}}


def package_of(row):
    """What trains the row: a launcher, the version of a package in place of the pinned one, and
    whether it is trained with the newest releases."""
    return row["launcher"], row.get("older", ""), row.get("newest", False)


def train(package, world, cases, out, of_newest):
    """Trains all in one go; one by one if that ends early, so that a row spoils no other."""
    launcher, older, by_newest = package
    python = of_newest if by_newest else sys.executable
    path = [Path(sys.executable).parents[1] / "older" / older] if older else []
    cases = {name: {**case, "may_fail": True} for name, case in cases.items()}
    try:
        agreement.train(python, launcher, world, cases, out, path)
    except (AssertionError, subprocess.TimeoutExpired):
        for name, case in cases.items():
            try:
                agreement.train(python, launcher, world, {name: case}, out, path)
            except (AssertionError, subprocess.TimeoutExpired) as error:
                told = [line for line in str(error).splitlines() if "Error" in line]
                (out / f"{name}.txt").write_text(told[-1] if told else str(error)[-200:])


def train_all(rows, folder, of_newest):
    """The folders of references and of runs, by what trains them."""
    references, runs = defaultdict(dict), defaultdict(dict)
    for row in rows:
        name = reference_name(row)
        for suffix, case in with_noise(row["reference"]).items():
            references[package_of(row)][name + suffix] = case
        runs[package_of(row), row["world"]][row["row"]] = row["case"]
    for number, (package, cases) in enumerate(references.items()):
        train(package, 1, cases, folder / f"references{number}", of_newest)
    for number, ((package, world), cases) in enumerate(runs.items()):
        print(f"{' '.join(package[:2]).strip()} on {world}: {len(cases)} rows", file=sys.stderr)
        train(package, world, cases, folder / f"runs{number}", of_newest)
    where = {key: folder / f"runs{number}" for number, key in enumerate(runs)}
    return {key: folder / f"references{n}" for n, key in enumerate(references)}, where


def compare(row, references, runs):
    """What came of a row: its exit code, the report's first line, and the first tensor blamed."""
    name = row["row"] + (".h5" if row["world"] == 1 else "")
    run, reference = runs / name, references / reference_name(row)
    for told in (runs / f"{row['row']}.txt", reference.with_suffix(".txt")):
        if told.exists():
            return FAILED, told.read_text(encoding="utf-8").splitlines()[0], ""
    noise = [f"{reference}_noise{seed}.h5" for seed in SEEDS]
    report = runs / f"{row['row']}.json"
    given = ["compare", f"{reference}.h5", run, "--noise", *noise, "--json", report]
    done = run_ttrace(*given, timeout=1800)
    first = ""
    if report.exists():
        told = json.loads(report.read_text(encoding="utf-8"))
        results = {result["id"]: result["key"] for result in told["results"]}
        for finding in told["findings"][:1]:
            key = results.get(finding["id"], finding.get("key", {}))
            first = f"{key.get('name', finding['id'])} · {key.get('kind', '')}"
    first_line = answer(done.stdout) or done.stderr.strip()
    return done.returncode, first_line.replace(f"{runs}/", ""), first


def line(row, outcome):
    code, first_line, first = outcome
    cells = [row["row"], row["world"], code, first_line[:150], first, row.get("cause", "")]
    return "| " + " | ".join(str(cell).replace("|", "/") for cell in cells) + " |\n"


def lines_of(page):
    """The page's lines of rows, by name."""
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    lines = text.partition(HEAD)[2].splitlines(keepends=True)
    return {name_of(line): line for line in lines}


def name_of(line):
    return line.split(" ", 2)[1]


def page_of(lines):
    """The table in the order of the rows, under how many there are of each exit code."""
    known = [lines[row["row"]] for row in ROWS if row["row"] in lines]
    codes = Counter(line.split(" | ")[2] for line in known)
    counted = ", ".join(f"{n} with {code}" for code, n in sorted(codes.items()))
    return f"{len(known)} rows by exit code: {counted}.\n\n{HEAD}{''.join(known)}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", type=Path)
    parser.add_argument("--keep", type=Path, help="a folder for the traces")
    parser.add_argument("--newest", help="an interpreter that has the newest releases")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    rows = [r for r in ROWS if not given.names or any(name in r["row"] for name in given.names)]
    if not given.newest and any(row.get("newest") for row in rows):
        given.newest = newest.interpreter()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        folder.mkdir(exist_ok=True)
        references, runs = train_all(rows, folder, given.newest)
        lines, unexpected = {}, []
        for row in rows:
            package = package_of(row)
            outcome = compare(row, references[package], runs[package, row["world"]])
            lines[row["row"]] = line(row, outcome)
            if outcome[0] != row.get("exit", 0) or row.get("first", "") not in outcome[2]:
                unexpected.append(row["row"])
    print(page_of(lines))
    if given.write:
        kept = lines_of(given.write) if given.names else {}
        given.write.write_text(PAGE + page_of({**kept, **lines}), encoding="utf-8")
    if unexpected:
        sys.exit(f"otherwise than the row says: {', '.join(unexpected)}")


if __name__ == "__main__":
    main()
