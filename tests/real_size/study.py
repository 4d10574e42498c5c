"""Makes and compares the traces of one case after the other, and writes REAL_SIZE.md."""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
import time
import traceback
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import agreement
from power.comparing import label, summary
from power.store import Record, Store
from power.training import PATH, trace_path
from support.reports import findings
from support.text_report import answer
from support.ttrace_cli import UNUSABLE, run_ttrace

from real_size import table
from real_size.audited import audited
from real_size.cases import CASES, SEEDS, SPECIFICATION, Case

HERE = Path(__file__).parent
SPACE = 30e9  # bytes that the traces of a case may take
TIMEOUT = 1800  # of a comparison, on a machine that does other things as well


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("raw", type=Path, help="raw results, lines of JSON; kept between studies")
    parser.add_argument("--only", default="", help="cases of this name (a part of it)")
    parser.add_argument("--write", action="store_true", help="only write what is known by now")
    parser.add_argument("--tiny", action="store_true", help="small models, to try the study itself")
    parser.add_argument("--build", default="", help="the commit of `ttrace`, told with the results")
    given = parser.parse_args()
    store = Store(given.raw, given.build)
    # Traces are removed where the study is ended from outside, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if not given.write:
        for case in CASES:
            if given.only in case.name and case.name not in store:
                study(case, given.tiny, store)
    if given.tiny:
        print(table.text(store))
    else:
        (HERE.parent / "power" / "REAL_SIZE.md").write_text(table.text(store), encoding="utf-8")


def study(case: Case, tiny: bool, store: Store) -> None:
    """Adds the case's result; a case that fails is told, and tried again by the next study."""
    reports = store.path.with_suffix(".reports")
    reports.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        free = shutil.disk_usage(folder).free
        if not tiny and free < SPACE:
            print(f"{case.name}: {free / 1e9:.0f} GB are free in {folder.parent}, a case may take")
            print(f"{SPACE / 1e9:.0f} GB: make room, or name another folder in TMPDIR", flush=True)
            return
        begun = time.monotonic()
        try:
            members = Measured(case, tiny, folder, reports).members()
        except Exception as error:  # the other cases go on
            store.add(f"failed/{case.name}", why=str(error)[-3000:] or traceback.format_exc())
            print(f"{case.name}: failed, {(str(error).splitlines() or ['?'])[-1]}", flush=True)
            return
    seconds = time.monotonic() - begun
    record = store.add(case.name, **members, seconds=seconds)
    print(f"{case.name}: {seconds:.0f} s", flush=True)
    for which in ("healthy", "faulty"):
        print(f"  {which}: {record[which]['answer']}")
        print(f"    audit: {record['audit'][which]['answer']}", flush=True)


class Measured:
    """One case in a folder of its own."""

    def __init__(self, case: Case, tiny: bool, folder: Path, reports: Path) -> None:
        self.case = case
        self.folder = folder
        self.reports = reports
        self.trainings = case.trainings(tiny)
        self.bytes = 0  # the most that lay there at a time
        self.seconds: dict[str, float] = {}

    def members(self) -> Record:
        """What the store keeps of the case."""
        alone = ["reference", *(f"noise{seed}" for seed in SEEDS)]
        self._train(alone)
        reference, healthy = self._run("healthy")
        _, faulty = self._run("faulty")
        audits = {"healthy": healthy.pop("audit"), "faulty": faulty.pop("audit")}
        return {
            "parameters": reference["parameters"],
            "norms": {
                "reference": [reference["grad_norm"], reference["exact_norm"]],
                "healthy": [healthy.pop("grad_norm"), healthy.pop("exact_norm")],
            },
            "healthy": healthy,
            "faulty": {**faulty, "bug": self.case.bug.name},
            "audit": audits,
            "stages": self.seconds,
            "bytes": self.bytes,
        }

    def _run(self, name: str) -> tuple[Record, Record]:
        """Facts of the reference, how that run compares with it, and its audit alone; the run's
        trace is removed."""
        self._train([name])
        facts = json.loads((self.folder / f"{name}.json").read_text(encoding="utf-8"))
        found = {**self._compared(name), **facts, "audit": self._audited(name)}
        shutil.rmtree(self.folder / name)
        reference = json.loads((self.folder / "reference.json").read_text(encoding="utf-8"))
        return reference, found

    def _train(self, names: list[str]) -> None:
        begun = time.monotonic()
        (ranks,) = {self.trainings[name][0] for name in names}
        cases = {name: self.trainings[name][1] for name in names}
        agreement.train(sys.executable, HERE / "train.py", ranks, cases, self.folder, PATH)
        self.seconds[f"train {names[0]}"] = time.monotonic() - begun
        used = sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file())
        self.bytes = max(self.bytes, used)

    def _audited(self, name: str) -> Record:
        return audited(
            trace_path(self.folder, name),
            self.folder / SPECIFICATION,
            self.case.bug.first_of_audit,
            self.reports / f"{self.case.name}-{name}.audit.json",
        )

    def _compared(self, name: str) -> Record:
        """The report in short; its whole text and JSON stay among the reports."""
        file = self.reports / f"{self.case.name}-{name}.json"
        noise = [trace_path(self.folder, f"noise{seed}") for seed in SEEDS]
        traces = [trace_path(self.folder, which) for which in ("reference", name)]
        begun = time.monotonic()
        done = run_ttrace("compare", *traces, "--noise", *noise, "--json", file, timeout=TIMEOUT)
        self.seconds[f"compare {name}"] = time.monotonic() - begun
        file.with_suffix(".txt").write_text(done.stdout + done.stderr, encoding="utf-8")
        if done.returncode == UNUSABLE or not file.exists():
            raise RuntimeError(done.stderr or done.stdout)
        report = {**json.loads(file.read_text(encoding="utf-8")), "answer": answer(done.stdout)}
        said = summary(report)
        found = findings(report)
        first = found[:1]
        patterns = self.case.bug.first
        return {
            **{what: said[what] for what in ("exit_code", "answer", "tensors", "unchecked")},
            **{what: said[what] for what in ("tensors_beyond", "slices_beyond", "worst")},
            "beyond": said["beyond"][:50],
            "grad_norm_result": _of_norm(report),
            "suspects": len(report["suspects"]),
            "elsewhere": [label(one["key"]) for one in found if not _is_one(one["key"], patterns)],
            "first": [label(finding["key"]) for finding in first],
            "as_expected": any(_is_one(finding["key"], patterns) for finding in first),
        }


def _of_norm(report: dict[str, Any]) -> list[dict[str, Any]]:
    wanted = ("outcome", "rule", "error", "allowed", "passing_multiplier", "reason", "replay")
    norms = [one for one in report["results"] if one["key"]["kind"] == "grad_norm"]
    return [{what: one[what] for what in wanted if what in one} for one in norms]


def _is_one(key: dict[str, Any], patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(f"{key['kind']} {key['name']}", pattern) for pattern in patterns)


if __name__ == "__main__":
    main()
