"""The study `scripts/zoo.sh`: trains every architecture in miniature and audits it.

Usage: python -m zoo.study RAW.jsonl [--only GLOB]... [--runs healthy,faulty,bf16]
    [--sample N] [--steps N] [--build COMMIT] [--at-once N] [--write PAGE]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import subprocess
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from power.comparing import label
from power.store import Record, Store
from real_size.audited import worst
from support.ttrace_cli import UNUSABLE, run_ttrace

from zoo import page, train
from zoo.models import architectures

RUNS = ("healthy", "faulty", "bf16")
# Of a process that trains one miniature.
SECONDS = 150
BYTES = 12 << 30
AT_ONCE = 2
# Processes are forked from one that has imported torch and transformers already.
_PROCESSES = multiprocessing.get_context("forkserver")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("raw", type=Path, help="raw results: a study that was stopped goes on")
    parser.add_argument("--only", action="append", help="architectures as KIND/TASK, a glob")
    parser.add_argument("--runs", default="healthy,faulty", help="of " + ", ".join(RUNS))
    parser.add_argument("--sample", type=int, help="only so many, drawn by a seed")
    parser.add_argument("--steps", type=int, default=1, help="how many steps each run trains")
    parser.add_argument("--again", action="append", default=[], help="forget these: a glob")
    parser.add_argument("--build", default=_commit(), help="what the results are measured by")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="how many at a time")
    parser.add_argument("--write", type=Path, help="write the page to this file")
    args = parser.parse_args()
    _PROCESSES.set_forkserver_preload(["zoo.train"])
    store = Store(args.raw, args.build)
    chosen = [
        (kind, task)
        for kind, task in architectures()
        if any(fnmatchcase(f"{kind}/{task}", glob) for glob in args.only or ["*"])
    ]
    # Those that were tried when a study is stopped are a sample of all.
    random.Random(1).shuffle(chosen)
    chosen = chosen[: args.sample]
    reading = threading.Lock()

    def one(architecture: tuple[str, str]) -> None:
        kind, task = architecture
        runs = [run for run in args.runs.split(",") if _wanted(store, run, kind, task, args.again)]
        if not runs:
            return
        with tempfile.TemporaryDirectory(prefix="ttrace-zoo-") as folder:
            # The specification of the healthy run judges the faulty one.
            for run in runs if runs[0] != "faulty" else ["healthy", *runs]:
                record = measured(kind, task, run, Path(folder), args.steps)
                with reading:
                    store.add(f"{run}/{kind}/{task}", **record)
                print(f"{run}/{kind}/{task}: {_line(record)}", flush=True)
                if record["state"] != "ran":
                    break

    with ThreadPoolExecutor(args.at_once) as pool:
        list(pool.map(one, chosen))
    if args.write:
        args.write.write_text(page.text(store, architectures()), encoding="utf-8")


def _commit() -> str:
    """The commit that is checked out; empty where there is none."""
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip()


def _wanted(store: Store, run: str, kind: str, task: str, again: list[str]) -> bool:
    name = f"{run}/{kind}/{task}"
    return name not in store or any(fnmatchcase(name, glob) for glob in again)


def measured(kind: str, task: str, run: str, folder: Path, steps: int = 1) -> Record:
    """What became of one run."""
    facts, log = folder / f"{run}.json", folder / f"{run}.log"
    arguments = (kind, task, run, folder, BYTES, "cpu", steps)
    process = _PROCESSES.Process(target=train.child, args=arguments)
    process.start()
    process.join(SECONDS)
    if process.exitcode is None:
        process.kill()
        process.join()
        return {"state": "too slow", "why": f"more than {SECONDS} s"}
    if not facts.exists():
        return {"state": "died", "why": _tail(log), "code": process.exitcode}
    told = json.loads(facts.read_text(encoding="utf-8"))
    if told["state"] != "ran":
        return dict(told)
    trace = folder / f"{run}.h5"
    specification = folder / ("bf16.spec" if run == "bf16" else "healthy.spec")
    if not trace.exists() or not specification.exists():
        return {**told, "state": "not recorded", "why": _tail(log)}
    return {**told, **audited(trace, specification)}


def audited(trace: Path, specification: Path) -> Record:
    """The audit in short."""
    file = trace.with_suffix(".report")
    flags = ("--specification", specification, "--threads", "1", "--json", file)
    try:
        done = run_ttrace("audit", trace, *flags, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return {"state": "audit too slow", "why": f"more than {SECONDS} s"}
    if done.returncode == UNUSABLE or not file.exists():
        return {"state": "not audited", "why": done.stderr[-300:]}
    report = json.loads(file.read_text(encoding="utf-8"))
    by_id = {result["id"]: result["key"] for result in report["results"]}
    coverage = report["coverage"]
    return {
        "exit_code": done.returncode,
        "coverage": coverage,
        "findings": [label(by_id[one["members"][0]]) for one in report["findings"]][:5],
        "causes": sorted({c["name"] for one in report["findings"] for c in one.get("causes", [])}),
        "worst": worst(report),
    }


def _tail(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-300:] if log.exists() else ""


def _line(record: dict[str, Any]) -> str:
    if "exit_code" not in record:
        return f"{record['state']}: {record.get('why', '')}"[:200]
    coverage = record["coverage"]
    return (
        f"exit {record['exit_code']}, {coverage['judged']} of {coverage['tensors']},"
        f" {record['findings'][:1]} {record.get('fault', '')} {record.get('module', '')}"
        f" {coverage['not_judged']}"
    )


if __name__ == "__main__":
    main()
