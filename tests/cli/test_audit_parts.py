"""audit --part I/N, --resume and report merge: several processes, one report."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.same_report import json_but_environment
from support.ttrace_cli import INCONCLUSIVE, TESTDATA

from .conftest import Run
from .small_traces import check_answer, check_refused
from .test_audit import changed
from .test_mpi import mpirun
from .test_parts import check_merge, merged, parts_of

SPECIFICATION = TESTDATA / "specification.json"
HEALTHY = [TESTDATA / "tp2sp", "--specification", SPECIFICATION]
FAULTY = [TESTDATA / "tp2sp_p12", "--specification", SPECIFICATION]


def another_norm(specification: Any) -> None:
    """Many outputs and gradients then follow from nothing that the run holds."""
    for pattern in specification["patterns"]:
        for node in pattern["nodes"]:
            if node[0] == "layer_norm":
                node[2]["eps"] = 0.1


@pytest.mark.parametrize("of", [1, 2, 4, 9])
@pytest.mark.parametrize("arguments", [HEALTHY, FAULTY], ids=["healthy", "faulty"])
def test_real_runs(ttrace: Run, tmp_path: Path, arguments: list[str | Path], of: int) -> None:
    check_merge(ttrace, tmp_path, of, *arguments, command="audit")


def test_broken_expressions_and_their_causes(ttrace: Run, tmp_path: Path) -> None:
    arguments = [TESTDATA / "tp2sp", "--specification", changed(tmp_path, another_norm)]
    check_merge(ttrace, tmp_path, 3, *arguments, "--exact", command="audit")
    report = json.loads((tmp_path / "whole.json").read_text())
    assert len(report["findings"]) > 1
    assert all(finding["rejected"] for finding in report["findings"])


def test_selections_and_no_specification(ttrace: Run, tmp_path: Path) -> None:
    check_merge(ttrace, tmp_path, 3, *FAULTY, "--only", "layers.1*", command="audit")
    check_merge(ttrace, tmp_path, 3, TESTDATA / "tp2sp_p12", command="audit")


def test_what_cannot_be_read(ttrace: Run, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(TESTDATA / "tp2sp", run)
    damaged = run / "rank_00001.h5"
    damaged.write_bytes(damaged.read_bytes()[:600])
    check_merge(ttrace, tmp_path, 3, run, "--specification", SPECIFICATION, command="audit")


def test_a_layer_and_direction_stay_together(ttrace: Run, tmp_path: Path) -> None:
    units: dict[tuple[str, ...], set[int]] = {}
    for i, file in enumerate(parts_of(ttrace, tmp_path, 4, *HEALTHY, command="audit")):
        for result in json.loads(file.read_text())["results"]:
            if result.get("layer") is None:
                continue
            forward = result["phase"] in ("parameter", "input", "forward", "loss")
            key = result["key"]
            unit = (str(key["step"]), str(key["microbatch"]), str(result["layer"]), str(forward))
            units.setdefault(unit, set()).add(i)
    assert len(units) > 4
    assert {len(parts) for parts in units.values()} == {1}


def test_missing_doubled_and_foreign_parts(ttrace: Run, tmp_path: Path) -> None:
    parts = parts_of(ttrace, tmp_path, 3, *FAULTY, command="audit")
    done = merged(ttrace, [parts[0], parts[2]], "--json", tmp_path / "merged.json")
    check_answer(done, INCONCLUSIVE, "INCONCLUSIVE  part 2 of 3 is missing, with ")
    report = json.loads((tmp_path / "merged.json").read_text())
    lacking = [r for r in report["results"] if "which is missing" in r.get("reason", "")]
    assert lacking
    assert {result["outcome"] for result in lacking} == {"not_judged"}
    copy = tmp_path / "copy.json"
    shutil.copy(parts[1], copy)
    check_refused(merged(ttrace, [*parts, copy]), f"{copy}: is part 2, as {parts[1]} is")
    other = tmp_path / "other"
    other.mkdir()
    foreign = parts_of(ttrace, other, 3, *HEALTHY, command="audit")[1]
    check_refused(
        merged(ttrace, [parts[0], foreign]),
        f"{foreign}: is a part of another audit than {parts[0]}: the run is ",
    )
    foreign = parts_of(ttrace, other, 3, *FAULTY, "--exact", command="audit")[1]
    check_refused(merged(ttrace, [parts[0], foreign]), "--exact is not given there and given here")
    compared = parts_of(ttrace, other, 3, TESTDATA / "ref.h5", TESTDATA / "tp2sp_p12")[1]
    check_refused(
        merged(ttrace, [parts[0], compared]),
        f"{compared}: is a part of a comparison, and {parts[0]} is not",
    )


def test_a_part_that_was_edited(ttrace: Run, tmp_path: Path) -> None:
    parts = parts_of(ttrace, tmp_path, 2, *HEALTHY, command="audit")
    text = parts[1].read_text()
    report = json.loads(text)
    report["part"]["measurements"].pop()
    parts[1].write_text(json.dumps(report))
    check_refused(merged(ttrace, parts), "run ", "again")
    for share in (0.1, 0.5, 0.999):
        parts[1].write_text(text[: int(share * len(text))])
        check_refused(merged(ttrace, parts), f"{parts[1]}: not valid JSON")
    parts[1].write_text(text.replace(str(SPECIFICATION), "none.json"))
    check_refused(merged(ttrace, parts), f"{parts[1]}: is a part of another audit than")


def test_a_specification_that_has_changed_since(ttrace: Run, tmp_path: Path) -> None:
    specification = tmp_path / "specification.json"
    shutil.copy(SPECIFICATION, specification)
    arguments = [TESTDATA / "tp2sp", "--specification", specification]
    parts = parts_of(ttrace, tmp_path, 2, *arguments, command="audit")
    specification.write_text(specification.read_text() + "\n")
    check_refused(merged(ttrace, parts), f"the file {specification} was ", "make all parts again")


def test_going_on_from_a_state(ttrace: Run, tmp_path: Path) -> None:
    state = tmp_path / "state"
    whole = ttrace("audit", *FAULTY, "--resume", state, "--json", tmp_path / "whole.json")
    lines = state.read_bytes().splitlines(keepends=True)
    # As a process leaves it that is killed: whole lines, and the beginning of one.
    for kept in (1, len(lines) // 3, len(lines) - 1):
        state.write_bytes(b"".join(lines[:kept]) + lines[kept][:20])
        again = ttrace("audit", *FAULTY, "--resume", state, "--json", tmp_path / "again.json")
        assert again.returncode == whole.returncode, again.stderr
        told = json_but_environment(tmp_path / "again.json")
        assert told == json_but_environment(tmp_path / "whole.json")
        assert len(state.read_bytes().splitlines()) == len(lines)
    check_refused(ttrace("audit", *HEALTHY, "--resume", state), f"{state}: is the state of another")


def test_under_mpirun(ttrace: Run, tmp_path: Path) -> None:
    one = ttrace("audit", *FAULTY, "--json", tmp_path / "one.json")
    many = mpirun(3, "audit", *FAULTY, "--json", tmp_path / "many.json")
    assert many.returncode == one.returncode, many.stderr
    told = json_but_environment(tmp_path / "many.json")
    assert told == json_but_environment(tmp_path / "one.json")
