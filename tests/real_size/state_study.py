"""Trains the cases of state_cases.py, and writes STATE.md."""

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
from power.store import Record, Store
from power.tables import table
from power.training import PATH, trace_path
from support.text_report import answer
from support.ttrace_cli import UNUSABLE, run_ttrace

from real_size.state_cases import FAULTS, SEEDS, Fault, Group
from real_size.state_lies import LIES

HERE = Path(__file__).parent
TIMEOUT = 1800
VERDICTS = {
    "compare": {0: "match", 1: "diverged", 3: "inconclusive"},
    "audit": {0: "holds", 1: "broken", 3: "inconclusive"},
}


class Studied:
    """The cases of one group, in a folder of their own."""

    def __init__(
        self,
        group: Group,
        tiny: bool,
        folder: Path,
        store: Store,
        steps: int,
        python: str = sys.executable,
    ) -> None:
        self._python = python
        self._folder, self._store = folder, store
        self._group, self._tiny, self._steps = group, tiny, steps
        self._reports = store.path.with_suffix(".reports")
        self._reports.mkdir(exist_ok=True)

    def references(self) -> None:
        alone = self._training()
        cases = {"reference": {**alone, "specify": True}}
        cases |= {f"noise{seed}": {**alone, "noise": seed} for seed in SEEDS}
        self._train(1, cases)
        noise = [trace_path(self._folder, f"noise{seed}") for seed in SEEDS]
        tolerance, reference = self._folder / "tolerance.h5", self._folder / "reference.h5"
        done = run_ttrace("calibrate", reference, *noise, "-o", tolerance, timeout=TIMEOUT)
        assert done.returncode == 0, done.stderr
        for one in noise:
            one.unlink()

    def run(self, id: str, layout: str, fault: str = "", edit: Any = None) -> Record:
        """How a run compares, and what its audit says."""
        begun = time.monotonic()
        told = {"fault": fault} if fault else {}
        self._train(2, {"run": self._training(layout, **told)})
        trace = trace_path(self._folder, "run")
        if edit is not None:
            edit(trace)
        used = sum(file.stat().st_size for file in self._folder.rglob("*") if file.is_file())
        compared = self._asked(
            id,
            "compare",
            self._folder / "reference.h5",
            trace,
            "--tolerance",
            self._folder / "tolerance.h5",
        )
        specification = self._folder / "reference.specification.json"
        flags: list[str | Path] = []
        if specification.exists():
            flags = ["--specification", specification]
        audited = self._asked(id, "audit", trace, *flags)
        audited["specified"] = bool(flags)
        shutil.rmtree(trace)
        seconds = time.monotonic() - begun
        return self._store.add(
            id, compare=compared, audit=audited, seconds=seconds, bytes=used, tiny=self._tiny
        )

    def _training(self, layout: str = "", **more: Any) -> Record:
        return self._group.training(self._tiny, layout, steps=self._steps, **more)

    def _train(self, ranks: int, cases: dict[str, Record]) -> None:
        script = HERE / "state_faults.py"
        agreement.train(self._python, script, ranks, cases, self._folder, PATH)

    def _asked(self, id: str, command: str, *arguments: str | Path) -> Record:
        file = self._reports / f"{id}.{command}.json"
        done = run_ttrace(command, *arguments, "--json", file, timeout=TIMEOUT)
        file.with_suffix(".txt").write_text(done.stdout + done.stderr, encoding="utf-8")
        if done.returncode == UNUSABLE or not file.exists():
            raise RuntimeError(done.stderr or done.stdout)
        first = _first(json.loads(file.read_text(encoding="utf-8")))
        said = answer(done.stdout).replace(f"{self._folder}/", "")
        return {"exit_code": done.returncode, "answer": said, **first}


def _first(report: Record) -> Record:
    """What the first finding is of, and its causes."""
    findings = report["findings"]
    if not findings:
        return {"first": "", "causes": []}
    one = findings[0]
    causes = [cause["name"] for cause in one.get("causes", ())]
    if "setting" in one:
        return {"first": f"setting {one['setting']['name']}", "causes": causes}
    keys = {result["id"]: result["key"] for result in report["results"]}
    key = keys[(one.get("members") or [one.get("id")])[0]]
    return {"first": f"{key['kind']} {key['name']}", "causes": causes}


def right(fault: Fault, said: Record, by_cause: bool = True) -> bool:
    """Whether the first finding is the fault, by place and by cause, or by place alone."""
    placed = any(fnmatchcase(said["first"], one) for one in fault.first)
    return (
        placed
        and not by_cause
        or placed
        and (not fault.causes or said["causes"][:1] in [[one] for one in fault.causes])
    )


def study(store: Store, only: str, tiny: bool, steps: int) -> None:
    """Runs the cases that the store lacks, and adds their results. Prints which groups failed."""
    groups = dict.fromkeys(fault.group for fault in FAULTS)
    for group in groups:
        wanted: list[tuple[str, str, str, Any]] = [
            (f.id, f.layout, f.name, None) for f in FAULTS if f.group == group
        ]
        layouts = dict.fromkeys(layout for _, layout, _, _ in wanted)
        wanted = [(f"healthy-{group.name}-{one}", one, "", None) for one in layouts] + wanted
        wanted += [(f"lie-{x.name}", x.layout, x.fault, x.edit) for x in LIES if x.group == group]
        parts = only.split(",")
        wanted = [one for one in wanted if any(part in one[0] for part in parts)]
        wanted = [one for one in wanted if one[0] not in store]
        if not wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            studied = Studied(group, tiny, Path(folder), store, steps)
            try:
                studied.references()
            except Exception:
                print(f"{group.name}: {traceback.format_exc()[-3000:]}", flush=True)
                continue
            for one in wanted:
                try:
                    record = studied.run(*one)
                except Exception:
                    print(f"{one[0]}: {traceback.format_exc()[-3000:]}", flush=True)
                    shutil.rmtree(Path(folder, "run"), ignore_errors=True)
                    continue
                print(f"{one[0]}: {record['seconds']:.0f} s")
                for which in ("compare", "audit"):
                    said = record[which]
                    print(f"  {which} {said['exit_code']}: {said['answer']}")
                    print(f"    {said['first']} {said['causes']}", flush=True)


def text(store: Store) -> str:
    rows = []
    for fault in FAULTS:
        healthy = store.records.get(f"healthy-{fault.group.name}-{fault.layout}")
        faulty = store.records.get(fault.id)
        if healthy is None or faulty is None:
            continue
        job = f"{fault.group.name}, {fault.layout}{', small' if faulty['tiny'] else ''}"
        cells = [fault.number, fault.says, job]
        cells += [VERDICTS[one][healthy[one]["exit_code"]] for one in ("compare", "audit")]
        for which in ("compare", "audit"):
            said = faulty[which]
            cells += [
                VERDICTS[which][said["exit_code"]],
                "yes" if right(fault, said, which == "compare") else "**no**",
            ]
            cells += [said["answer"].replace("|", "\\|")]
        rows.append(cells)
    head = ["", "fault", "job", "healthy: compare", "audit", "compare", "right", "its first line"]
    lies = [
        [
            one.says,
            *(f"{VERDICTS[c][r[c]['exit_code']]}: {r[c]['answer']}" for c in ("compare", "audit")),
        ]
        for one in LIES
        if (r := store.records.get(f"lie-{one.name}"))
    ]
    return (
        "# Planted faults of state\n\nBy scripts/state_faults.sh. What lives between the steps of a"
        " training: masters, moments, schedules, averages, buffers. Each job goes on from a"
        " checkpoint of two steps, and its next steps are compared with one process. `right` says"
        " whether the first finding is the fault, by place and by cause (of an audit by place).\n\n"
        f"{table([*head, 'audit alone', 'right', 'its first line'], rows)}\n\n"
        f"## Edited traces\n\n{table(['edit', 'compare', 'audit'], lies)}\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("raw", type=Path, help="raw results, lines of JSON; kept between studies")
    parser.add_argument("--only", default="", help="parts of the names of cases, with commas")
    parser.add_argument("--write", action="store_true", help="only write what is known by now")
    parser.add_argument("--tiny", action="store_true", help="small models")
    parser.add_argument("--steps", type=int, default=2, help="how many are traced; for space, 1")
    given = parser.parse_args()
    store = Store(given.raw)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if not given.write:
        study(store, given.only, given.tiny, given.steps)
    if given.tiny:
        print(text(store))
    else:
        (HERE.parent / "power" / "STATE.md").write_text(text(store), encoding="utf-8")


if __name__ == "__main__":
    main()
