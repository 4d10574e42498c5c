"""localize --part I/N, --resume, mpirun and report merge: several processes, one report."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support.same_report import json_but_environment
from support.ttrace_cli import DIVERGED, INCONCLUSIVE, TESTDATA

from .conftest import Run
from .small_traces import check_answer, check_refused
from .test_mpi import mpirun
from .test_parts import merged

REF, HEALTHY, FAULTY = (TESTDATA / name for name in ("ref.h5", "tp2sp", "tp2sp_p12"))
SPECIFICATION = ["--specification", TESTDATA / "specification.json"]
NOISE = [flag for i in (1, 2) for flag in ("--noise", TESTDATA / f"noise{i}.h5")]


@pytest.fixture
def report(ttrace: Run, tmp_path: Path) -> Path:
    """What `compare` said of the faulty run."""
    ttrace("compare", REF, FAULTY, "--json", tmp_path / "compare.json")
    return tmp_path / "compare.json"


def parts_of(ttrace: Run, folder: Path, of: int, *arguments: str | Path) -> list[Path]:
    files = [folder / f"part{i}.json" for i in range(1, of + 1)]
    for i, file in enumerate(files, 1):
        done = ttrace("localize", *arguments, "--part", f"{i}/{of}", "--json", file)
        assert done.returncode in (0, DIVERGED, INCONCLUSIVE), done.stderr
        assert f"part {i} of {of}: " in done.stdout.splitlines()[0]
        answer = json.loads(file.read_text())
        assert answer["exit_code"] == done.returncode
        assert not any(finding.get("checks") for finding in answer["findings"])
    return files


def lines_of(part: Path) -> int:
    return len(json.loads(part.read_text())["part"]["measurements"])


def check_merge(ttrace: Run, folder: Path, of: int, *arguments: str | Path) -> list[Path]:
    whole = ttrace("localize", *arguments, "--json", folder / "whole.json", "--all")
    files = parts_of(ttrace, folder, of, *arguments)
    again = merged(ttrace, files[::-1], "--json", folder / "merged.json", "--all")
    assert again.returncode == whole.returncode, again.stderr
    assert again.stdout.splitlines()[:-1] == whole.stdout.splitlines()[:-1]  # the last has seconds
    assert again.stderr == whole.stderr
    told = json_but_environment(folder / "merged.json")
    assert told == json_but_environment(folder / "whole.json")
    return files


@pytest.mark.parametrize("run", [HEALTHY, FAULTY], ids=["healthy", "faulty"])
def test_the_comparison_is_divided(ttrace: Run, tmp_path: Path, run: Path) -> None:
    arguments = [REF, run, *NOISE, *SPECIFICATION, "--layer", "layers.1*"]
    files = check_merge(ttrace, tmp_path, 3, *arguments)
    assert all(lines_of(file) > 10 for file in files)


def test_the_modules_of_a_report_are_divided(ttrace: Run, tmp_path: Path, report: Path) -> None:
    arguments = [REF, FAULTY, *SPECIFICATION, "--report", report, "--all-layers"]
    files = check_merge(ttrace, tmp_path, 4, *arguments)
    assert all(lines_of(file) > 10 for file in files)


def test_a_broken_module_and_one_that_the_reference_breaks(ttrace: Run, tmp_path: Path) -> None:
    specification = json.loads((TESTDATA / "specification.json").read_text())
    for pattern in specification["patterns"]:
        for node in pattern["nodes"]:
            if node[0] == "layer_norm":
                node[2]["eps"] = 0.1
    (tmp_path / "other.json").write_text(json.dumps(specification))
    arguments = [REF, FAULTY, "--specification", tmp_path / "other.json", "--all-layers"]
    check_merge(ttrace, tmp_path, 2, *arguments, "--skip", "layers.0*")


def test_missing_and_foreign_parts(ttrace: Run, tmp_path: Path, report: Path) -> None:
    by_report = [REF, FAULTY, *SPECIFICATION, "--report", report]
    for arguments in ([REF, FAULTY, *SPECIFICATION], by_report):
        parts = parts_of(ttrace, tmp_path, 3, *arguments)
        done = merged(ttrace, [parts[0], parts[2]], "--json", tmp_path / "merged.json")
        check_answer(done, INCONCLUSIVE, "INCONCLUSIVE  part 2 of 3 is missing, with ")
        told = json.loads((tmp_path / "merged.json").read_text())
        assert (told["verdict"], told["exit_code"]) == ("inconclusive", INCONCLUSIVE)
    (tmp_path / "other").mkdir()
    compared = tmp_path / "compared.json"
    ttrace("compare", REF, FAULTY, "--part", "2/3", "--json", compared)
    check_refused(
        merged(ttrace, [parts[0], compared]),
        f"{compared}: is a part of a comparison, and {parts[0]} is not",
    )
    (foreign, *_) = parts_of(ttrace, tmp_path / "other", 3, *by_report, "--layer", "final_norm")
    check_refused(merged(ttrace, [parts[1], foreign]), "--layer is not given there and final_norm")
    check_refused(ttrace("localize", REF, FAULTY, "--report", compared), "is of part 2 of 3 alone")
    check_refused(
        ttrace("localize", *by_report, "--part", "1/2", "--plan", tmp_path / "plan.json"),
        "--plan is for one process",
    )


def test_a_part_that_was_edited(ttrace: Run, tmp_path: Path, report: Path) -> None:
    arguments = [REF, FAULTY, *SPECIFICATION, "--report", report]
    parts = parts_of(ttrace, tmp_path, 2, *arguments)
    answer = json.loads(parts[1].read_text())
    answer["part"]["measurements"].pop()
    parts[1].write_text(json.dumps(answer))
    check_refused(merged(ttrace, parts), "again")
    report.write_text(report.read_text() + "\n")
    check_refused(merged(ttrace, parts[:1]), f"the file {report} was ", "make all parts again")


def test_going_on_from_a_state(ttrace: Run, tmp_path: Path) -> None:
    state = tmp_path / "state"
    arguments = [REF, FAULTY, *SPECIFICATION]
    whole = ttrace("localize", *arguments, "--resume", state, "--json", tmp_path / "whole.json")
    lines = state.read_bytes().splitlines(keepends=True)
    for kept in (1, len(lines) // 2, len(lines) - 1):
        state.write_bytes(b"".join(lines[:kept]) + lines[kept][:20])
        again = ttrace("localize", *arguments, "--resume", state, "--json", tmp_path / "again.json")
        assert again.returncode == whole.returncode, again.stderr
        told = json_but_environment(tmp_path / "again.json")
        assert told == json_but_environment(tmp_path / "whole.json")
        assert len(state.read_bytes().splitlines()) == len(lines)
    other = ttrace("localize", REF, FAULTY, "--resume", state)
    check_refused(other, f"{state}: is the state of another")
    copy = tmp_path / "copy"
    shutil.copy(state, copy)
    check_refused(ttrace("compare", REF, FAULTY, "--resume", copy), "is the state of another")


@pytest.mark.parametrize("with_report", [False, True])
def test_under_mpirun(ttrace: Run, tmp_path: Path, report: Path, with_report: bool) -> None:
    arguments = [REF, FAULTY, *SPECIFICATION, *(["--report", report] if with_report else [])]
    one = ttrace("localize", *arguments, "--json", tmp_path / "one.json")
    many = mpirun(3, "localize", *arguments, "--json", tmp_path / "many.json")
    assert many.returncode == one.returncode == DIVERGED, many.stderr
    told = json_but_environment(tmp_path / "many.json")
    assert told == json_but_environment(tmp_path / "one.json")
