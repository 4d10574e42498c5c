"""--part I/N --local-files: each machine has the rank files of its own ranks alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from support.safetensors_file import convert
from support.same_report import json_but_environment, text_but_environment
from support.synth import synth
from support.synth import tensors as synthetic
from support.ttrace_cli import DIVERGED, INCONCLUSIVE, MATCH, TESTDATA

from .conftest import Run
from .small_traces import check_answer, check_refused
from .test_parts import merged

PIPELINE = {"pp": 2, "tp": 2}
# Ranks 0 and 1 are the first stage. The last tensor is on both, as tied weights are.
LAYERS = [
    ("fc.0", "output", {"pp": {"only": 0}, "tp": {"shard": 0}}),
    ("fc.1", "output", {"pp": {"only": 1}, "tp": {"shard": 1}}),
    ("loss", "loss", {"pp": {"only": 1}}),
    ("norm", "main_grad", {"pp": {"only": 1}}),
]
TIED = ("tied", "main_grad", {"tp": {"shard": 0}})


class Machines:
    """Folders that stand for machines: the same names in each, and other rank files."""

    def __init__(self, ttrace: Run, folder: Path) -> None:
        self.ttrace, self.folder = ttrace, folder

    def make(self, tensors: Sequence[tuple], *, fault: str | None = None) -> None:
        (self.folder / "all").mkdir()
        made = []
        for name, kind, placements in tensors:
            shape = [] if kind == "loss" else [8, 16]
            made += synthetic(1, shape, name=name, kind=kind, placements=placements)
        synth(self.folder / "all" / "ref.h5", made)
        faults = [fault] if fault else []
        synth(self.folder / "all" / "run", made, "--noise", "4", mesh=PIPELINE, faults=faults)

    def run(self, machine: str, *arguments: str | Path) -> CompletedProcess[str]:
        return self.ttrace(*arguments, cwd=self.folder / machine)

    def convert(self) -> None:
        """Puts safetensors files in the place of the rank files."""
        for file in sorted((self.folder / "all" / "run").glob("rank_*.h5")):
            convert(file)

    def spread(self, *ranks: Sequence[int]) -> None:
        """Machine "1" gets the files of the first ranks, and so on; "merge" gets none."""
        for name, kept in (*((str(i), of) for i, of in enumerate(ranks, 1)), ("merge", ())):
            shutil.copytree(self.folder / "all", self.folder / name)
            for file in (self.folder / name / "run").glob("rank_*.*"):
                if int(file.stem[-5:]) not in kept:
                    file.unlink()

    def parts(self, of: int, *arguments: str | Path) -> list[Path]:
        files = []
        for i in range(1, of + 1):
            files.append(self.folder / f"part{i}.json")
            local = ("--part", f"{i}/{of}", "--local-files", "--json", files[-1])
            done = self.run(str(i), *arguments, *local)
            assert done.returncode in (MATCH, DIVERGED, INCONCLUSIVE), done.stderr
        return files

    def merged(self, parts: Sequence[Path], machine: str = "merge") -> CompletedProcess[str]:
        return self.run(
            machine, "report", "merge", *parts, "--json", self.folder / "merged.json", "--all"
        )

    def report(self) -> dict:
        return json.loads((self.folder / "merged.json").read_text())


@pytest.fixture
def machines(ttrace: Run, tmp_path: Path) -> Machines:
    return Machines(ttrace, tmp_path)


COMPARE = ("compare", "ref.h5", "run")


@pytest.mark.parametrize("fault", [None, "scaled=1.01@fc.1"])
@pytest.mark.parametrize("storage", ["h5", "safetensors"])
def test_stages_of_a_pipeline(machines: Machines, storage: str, fault: str | None) -> None:
    machines.make(LAYERS, fault=fault)
    if storage == "safetensors":
        machines.convert()
    whole = machines.run("all", *COMPARE, "--json", machines.folder / "whole.json", "--all")
    assert whole.returncode == (DIVERGED if fault else MATCH), whole.stdout
    machines.spread((0, 1), (2, 3))
    parts = machines.parts(2, *COMPARE)
    measured = [len(json.loads(part.read_text())["part"]["measurements"]) for part in parts]
    assert measured == [1, 3]
    done = machines.merged(parts, "2")
    assert done.returncode == whole.returncode, done.stderr
    assert done.stderr == whole.stderr
    # On a machine without any of the files the answer is the same, but for causes.
    done = machines.merged(parts)
    assert done.returncode == whole.returncode, done.stderr
    told = {r["id"]: (r["outcome"], r.get("error")) for r in machines.report()["results"]}
    known = json.loads((machines.folder / "whole.json").read_text())["results"]
    assert told == {r["id"]: (r["outcome"], r.get("error")) for r in known}
    if not fault:
        assert text_but_environment(done.stdout) == text_but_environment(whole.stdout)


def test_shards_that_lie_apart(machines: Machines) -> None:
    machines.make([*LAYERS, TIED])
    machines.spread((0, 1), (2, 3))
    done = machines.merged(machines.parts(2, *COMPARE))
    why = "1 of 5 tensors lies apart: no part has all rank files that are needed for it"
    check_answer(done, INCONCLUSIVE, f"INCONCLUSIVE  {why}")
    (apart,) = [r for r in machines.report()["results"] if r["outcome"] != "match"]
    assert (apart["id"], apart["outcome"]) == ("0/-/main_grad/tied/0/0", "not_judged")
    assert apart["reason"] == (
        "its shards lie apart: part 1 lacks run/rank_00002.h5 and 1 more file, "
        "part 2 lacks run/rank_00000.h5 and 1 more file"
    )


def test_a_file_that_no_machine_has(machines: Machines) -> None:
    machines.make(LAYERS)
    machines.spread((0, 1), (2,))
    parts = machines.parts(2, *COMPARE)
    done = machines.merged(parts)
    assert done.returncode == INCONCLUSIVE
    assert "warning: run/rank_00003.h5: No such file or directory" in done.stderr
    lost = [r for r in machines.report()["results"] if r["outcome"] == "unreadable"]
    assert {r["reason"] for r in lost} == {"run/rank_00003.h5: no part has this file"}
    assert len(lost) == 3
    # The file may be where the part that is missing ran.
    done = machines.merged(parts[:1])
    check_answer(done, INCONCLUSIVE, "INCONCLUSIVE  part 2 of 2 is missing, with 3 of 4 tensors")
    reasons = {r.get("reason") for r in machines.report()["results"]} - {None}
    assert reasons == {
        "run/rank_00002.h5 and 1 more file are on no part that is here: part 1 lacks "
        "run/rank_00002.h5 and 1 more file, and part 2 of 2 is missing"
    }


def test_two_machines_with_the_same_files(machines: Machines) -> None:
    machines.make([*LAYERS, TIED])
    machines.spread((0, 1, 2, 3), (2, 3))
    parts = machines.parts(2, *COMPARE)
    done = machines.merged(parts)
    assert done.returncode == MATCH, done.stdout
    other = machines.folder / "2" / "run" / "rank_00002.h5"
    other.write_bytes(other.read_bytes() + b"other")
    parts = machines.parts(2, *COMPARE)
    check_refused(machines.merged(parts), str(parts[1]), "run/rank_00002.h5 is ", " in part 1 and ")


def test_an_audit(machines: Machines) -> None:
    machines.make([*LAYERS, TIED])
    machines.spread((0, 1), (2, 3))
    done = machines.merged(machines.parts(2, "audit", "run"))
    check_answer(done, INCONCLUSIVE, "INCONCLUSIVE  1 of 5 tensors lies apart: ")
    (apart,) = [r for r in machines.report()["results"] if "lie apart" in r.get("reason", "")]
    assert (apart["id"], apart["outcome"]) == ("0/-/main_grad/tied/0/0", "not_judged")


def test_an_audit_by_a_specification(ttrace: Run, tmp_path: Path) -> None:
    """Every tensor of two tensor-parallel ranks is on both, or cut over both."""
    machines = Machines(ttrace, tmp_path)
    shutil.copytree(TESTDATA / "tp2sp", tmp_path / "all" / "run")
    machines.spread((0, 1), (0,))
    arguments = ("audit", "run", "--specification", TESTDATA / "specification.json")
    whole = machines.run("all", *arguments, "--json", tmp_path / "whole.json")
    done = machines.merged(machines.parts(2, *arguments), "1")
    assert done.returncode == whole.returncode, done.stdout
    assert json_but_environment(tmp_path / "merged.json") == json_but_environment(
        tmp_path / "whole.json"
    )


def test_a_localization(machines: Machines) -> None:
    machines.make([*LAYERS, TIED], fault="scaled=1.01@fc.1")
    machines.spread((0, 1), (2, 3))
    done = machines.merged(machines.parts(2, "localize", "ref.h5", "run"))
    check_answer(done, INCONCLUSIVE, "INCONCLUSIVE  1 of 5 tensors lies apart: ")


def test_going_on_from_a_state(machines: Machines) -> None:
    machines.make(LAYERS)
    machines.spread((0, 1), (2, 3))
    local = (*COMPARE, "--part", "2/2", "--local-files", "--resume", "state")
    assert machines.run("2", *local).returncode == MATCH
    assert machines.run("2", *local).returncode == MATCH
    (machines.folder / "2" / "run" / "rank_00002.h5").unlink()
    check_refused(machines.run("2", *local), "state: is the state of another")


def test_flags_that_go_together(machines: Machines, ttrace: Run) -> None:
    machines.make(LAYERS)
    check_refused(
        machines.run("all", *COMPARE, "--local-files"),
        "--local-files says what one of several machines has; give --part I/N",
    )
    machines.spread((0, 1), (2, 3))
    parts = machines.parts(2, *COMPARE)
    machines.run("2", *COMPARE, "--part", "2/2", "--json", parts[1])
    check_refused(
        merged(ttrace, parts), "--local-files is given there and not given here", str(parts[1])
    )
