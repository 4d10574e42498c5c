"""compare --part I/N and report merge: several processes, one report."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from conformance.write_trace import sample_tensors, write_candidate, write_reference
from support.reports import read_report
from support.same_report import json_but_environment, text_but_environment
from support.ttrace_cli import DIVERGED, INCONCLUSIVE, MATCH, TESTDATA

from .conftest import Run
from .small_traces import check_answer, check_refused, write_pair

NOISE = [flag for i in (1, 2, 3) for flag in ("--noise", TESTDATA / f"noise{i}.h5")]
REF = TESTDATA / "ref.h5"


def parts_of(
    ttrace: Run, folder: Path, of: int, *arguments: str | Path, command: str = "compare"
) -> list[Path]:
    files = [folder / f"part{i}.json" for i in range(1, of + 1)]
    for i, file in enumerate(files, 1):
        done = ttrace(command, *arguments, "--part", f"{i}/{of}", "--json", file)
        assert done.returncode in (MATCH, DIVERGED, INCONCLUSIVE), done.stderr
        report = json.loads(file.read_text()) if command == "audit" else read_report(file)
        assert report["exit_code"] == done.returncode
        assert (f"part {i} of {of}: " if command == "audit" else f"This is part {i} of {of} ") in (
            done.stdout
        )
    return files


def merged(ttrace: Run, files: list[Path], *arguments: str | Path) -> CompletedProcess[str]:
    return ttrace("report", "merge", *files, *arguments)


def check_merge(
    ttrace: Run, folder: Path, of: int, *arguments: str | Path, command: str = "compare"
) -> None:
    whole = ttrace(command, *arguments, "--json", folder / "whole.json", "--all")
    files = parts_of(ttrace, folder, of, *arguments, command=command)
    files.reverse()
    again = merged(ttrace, files, "--json", folder / "merged.json", "--all")
    assert again.returncode == whole.returncode, again.stderr
    assert text_but_environment(again.stdout) == text_but_environment(whole.stdout)
    assert again.stderr == whole.stderr
    told = json_but_environment(folder / "merged.json")
    assert told == json_but_environment(folder / "whole.json")


@pytest.mark.parametrize("of", [1, 2, 3, 7])
@pytest.mark.parametrize("run", ["tp2sp", "tp2sp_p12"])
@pytest.mark.parametrize("noise", [[], NOISE], ids=["fallback", "noise"])
def test_real_runs(ttrace: Run, tmp_path: Path, run: str, noise: list, of: int) -> None:
    check_merge(ttrace, tmp_path, of, REF, TESTDATA / run, *noise)


def test_all_flags(ttrace: Run, tmp_path: Path) -> None:
    done = ttrace("calibrate", REF, *NOISE[1::2], "-o", tmp_path / "tolerance.json")
    assert done.returncode == 0, done.stderr
    arguments = [REF, TESTDATA / "tp2sp_p12", "--tolerance", tmp_path / "tolerance.json"]
    arguments += ["--skip", "layers.1*", "--step", "0"]
    check_merge(ttrace, tmp_path, 3, *arguments)


def test_every_type_and_layout_and_what_cannot_be_read(ttrace: Run, tmp_path: Path) -> None:
    tensors = sample_tensors()
    write_reference(tmp_path / "ref.h5", tensors[1:])
    write_candidate(tmp_path / "run", tensors[:-1])
    damaged = tmp_path / "run" / "rank_00001.h5"
    damaged.write_bytes(damaged.read_bytes()[:600])
    check_merge(ttrace, tmp_path, 3, tmp_path / "ref.h5", tmp_path / "run")


def test_more_parts_than_tensors(ttrace: Run, tmp_path: Path) -> None:
    ref, run = write_pair(tmp_path)
    check_merge(ttrace, tmp_path, 5, ref, run)
    done = ttrace("compare", ref, run, "--part", "5/5")
    check_answer(done, INCONCLUSIVE, "INCONCLUSIVE  nothing was really checked")


def test_a_part_is_the_same_for_every_number_of_threads(ttrace: Run, tmp_path: Path) -> None:
    files = [tmp_path / f"{threads}.json" for threads in (1, 2, 5)]
    for file in files:
        ttrace("compare", REF, TESTDATA / "tp2sp", "--part=2/3", "--json", file, "--threads",
               file.stem)  # fmt: skip
    texts = {json_but_environment(file) for file in files}
    assert len(texts) == 1


def test_parts_are_balanced(ttrace: Run, tmp_path: Path) -> None:
    files = parts_of(ttrace, tmp_path, 4, REF, TESTDATA / "tp2sp")
    read = [json.loads(file.read_text())["environment"]["bytes_read"] for file in files]
    assert max(read) < 1.2 * min(read), read


@pytest.mark.parametrize(
    "part", ["0/3", "4/3", "1", "1/", "/2", "a/b", "1/0", "-1/2", "1/2/3", "1/9999999"]
)
def test_parts_that_there_are_not(ttrace: Run, part: str) -> None:
    done = ttrace("compare", REF, TESTDATA / "tp2sp", f"--part={part}")
    check_refused(done, f"--part {part}: expected a part and how many there are")


@pytest.fixture
def three(ttrace: Run, tmp_path: Path) -> list[Path]:
    return parts_of(ttrace, tmp_path, 3, REF, TESTDATA / "tp2sp")


def test_missing_parts(ttrace: Run, three: list[Path]) -> None:
    done = merged(ttrace, [three[0], three[2]], "--json", three[0].with_name("merged.json"))
    check_answer(done, INCONCLUSIVE, "INCONCLUSIVE  part 2 of 3 is missing, with ")
    report = read_report(three[0].with_name("merged.json"))
    own = json.loads(three[1].read_text())["counts"]["total"]
    lacking = [r for r in report["results"] if "which is missing" in r.get("reason", "")]
    assert 0 < len(lacking) < own
    assert {r["outcome"] for r in lacking} == {"skipped_by_rule"}
    assert f", with {len(lacking)} of " in report["why"]
    done = merged(ttrace, three[:1])
    check_answer(done, INCONCLUSIVE, "INCONCLUSIVE  parts 2 and 3 of 3 are missing, with ")


def test_a_doubled_part(ttrace: Run, three: list[Path]) -> None:
    copy = three[1].with_name("copy.json")
    shutil.copy(three[1], copy)
    check_refused(merged(ttrace, [*three, copy]), f"{copy}: is part 2, as {three[1]} is")


def test_parts_of_different_comparisons(ttrace: Run, three: list[Path], tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    file = parts_of(ttrace, other, 3, REF, TESTDATA / "tp2sp_p12")[1]
    done = merged(ttrace, [three[0], file, three[2]])
    check_refused(done, f"{file}: is a part of another comparison than {three[0]}", "the candidate")
    file = parts_of(ttrace, other, 3, REF, TESTDATA / "tp2sp", "--skip", "layers.1*")[1]
    check_refused(
        merged(ttrace, [three[0], file, three[2]]), str(file), "--skip is not given there"
    )
    file = parts_of(ttrace, other, 4, REF, TESTDATA / "tp2sp")[1]
    check_refused(merged(ttrace, [three[0], file]), f"{file}: is one of 4 parts, and")


def test_traces_that_have_changed_since(ttrace: Run, tmp_path: Path) -> None:
    ref, run = write_pair(tmp_path)
    files = parts_of(ttrace, tmp_path, 2, ref, run)
    (run / "rank_00001.h5").touch()
    assert merged(ttrace, files).returncode == MATCH
    with (run / "rank_00001.h5").open("ab") as file:
        file.write(b"\0")
    check_refused(merged(ttrace, files), str(files[0]), f"the trace {run} was ", "with checksums")
    shutil.rmtree(run)
    check_refused(merged(ttrace, files), str(run))


def test_what_is_not_a_part(ttrace: Run, three: list[Path], tmp_path: Path) -> None:
    whole = tmp_path / "whole.json"
    ttrace("compare", REF, TESTDATA / "tp2sp", "--json", whole)
    check_refused(merged(ttrace, [whole]), f"{whole}: the top level: a report of all tensors")
    whole.write_text('{"schema": "ttrace.manifest/2"}')
    check_refused(merged(ttrace, [whole]), f'{whole}: /schema: this is "ttrace.manifest/2"')
    whole.write_text(three[1].read_text().replace('"command": "compare"', '"command": "audit"'))
    check_refused(merged(ttrace, [whole]), f"{whole}: /part: is of another command")
    check_refused(merged(ttrace, [tmp_path / "none.json"]), f"{tmp_path}/none.json: cannot be read")
    for share in (0.1, 0.5, 0.9, 0.999):
        text = three[1].read_text()
        cut = tmp_path / "cut.json"
        cut.write_text(text[: int(share * len(text))])
        check_refused(merged(ttrace, [three[0], cut, three[2]]), f"{cut}: not valid JSON")


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda part: part.update(more=1), "/part/more: unknown key"),
        (lambda part: part.pop("of"), '/part: the key "of" is missing'),
        (lambda part: part.update(index=4), "/part: there is no part 4 of 3"),
        (lambda part: part.update(of=10**12), "/part: there is no part 2 of 1000000000000"),
        (lambda part: part.update(interrupted=True), "part 2 was interrupted"),
        (lambda part: part["comparison"].update(more=1), "/part/comparison/more: unknown key"),
        (lambda part: part["comparison"]["facts"].append(["a"]), "/part/comparison/facts/"),
        (lambda part: part["measurements"].pop(), "lacks the measurement of "),
        (lambda part: part["measurements"].append("x"), "/part/measurements/"),
        (lambda part: part["measurements"].append(part["measurements"][0]), "measured already"),
        (lambda part: part["measurements"].append(7), "expected a string, found number"),
    ],
)
def test_a_part_that_was_edited(ttrace: Run, three: list[Path], edit: object, reason: str) -> None:
    report = json.loads(three[1].read_text())
    edit(report["part"])
    three[1].write_text(json.dumps(report))
    check_refused(merged(ttrace, three), f"{three[1]}: ", reason)


def test_a_flipped_bit_in_what_was_measured(ttrace: Run, three: list[Path]) -> None:
    report = json.loads(three[1].read_text())
    line = report["part"]["measurements"][3]
    for at in range(0, len(line), 37):
        changed = line[:at] + ("A" if line[at] != "A" else "B") + line[at + 1 :]
        report["part"]["measurements"][3] = changed
        three[1].write_text(json.dumps(report))
        check_refused(merged(ttrace, three), f"{three[1]}: /part/measurements/3: ")


def test_the_merge_overwrites_nothing_it_reads(ttrace: Run, three: list[Path]) -> None:
    check_refused(merged(ttrace, three, "--json", three[1]), "--json and PART name the same file")


def test_report_alone_is_no_command(ttrace: Run) -> None:
    check_refused(ttrace("report"), "subcommand")
    check_refused(ttrace("report", "merge"), "PART")
