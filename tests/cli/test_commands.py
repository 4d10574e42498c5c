"""The commands as a user meets them: answers, flags, exit codes, files."""

from __future__ import annotations

import contextlib
import os
import pty
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from conformance.numpy_merge import key_of
from support.another_run import copy_as_another_run
from support.reports import read_report
from support.text_report import answer
from support.ttrace_cli import DIVERGED, INCONCLUSIVE, MATCH, TESTDATA, UNUSABLE, ttrace_binary

from .conftest import Run
from .small_traces import check_answer, check_match, check_refused, write_pair

REFERENCE, HEALTHY, FAULTY = TESTDATA / "ref.h5", TESTDATA / "tp2sp", TESTDATA / "tp2sp_p12"
NOISE = [flag for i in (1, 2, 3) for flag in ("--noise", TESTDATA / f"noise{i}.h5")]


SAME_RUN = "INCONCLUSIVE  the reference and the candidate are the same run, so nothing was checked"


def without_environment(path: Path) -> str:
    lines = path.read_text().splitlines()
    kept = [line for line in lines if not line.startswith('  "environment": ')]
    assert len(kept) == len(lines) - 1
    return "\n".join(kept)


# What a user sees first


def test_version_says_what_this_build_can_do(ttrace: Run) -> None:
    done = ttrace("--version")
    check_answer(done, MATCH, "ttrace 0.")
    for part in ("backends: cpu", "hdf5: 1.", "formats: ttrace.manifest/2, ttrace.answer/1"):
        assert part in done.stdout


@pytest.mark.parametrize(
    ("command", "codes"),
    [
        ([], "0 all is well, 1 something is not"),
        (["compare"], "0 match"),
        (["audit"], "0 everything that could be checked holds"),
        (["localize"], "0 nothing to explain"),
        (["inspect"], "0 shown, 2 usage"),
        (["lint"], "0 clean, 1 findings"),
        (["merge"], "0 written, 2 usage"),
        (["calibrate"], "0 written, 2 usage"),
        (["selftest"], "0 the faults were tried, 1 the pair diverged"),
        (["report", "merge"], "those of the command: 0 match"),
    ],
)
def test_help_tells_the_exit_codes(ttrace: Run, command: list[str], codes: str) -> None:
    done = ttrace(*command, "--help")
    assert done.returncode == MATCH
    assert done.stderr == ""
    assert f"Exit codes{', ' if codes.startswith('those') else ': '}{codes}" in done.stdout
    assert command == [] or f"ttrace {' '.join(command)} [OPTIONS]" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "subcommand"),
        (["compare"], "REF"),
        (["compare", REFERENCE], "RUN"),
        (["compare", REFERENCE, HEALTHY, HEALTHY], "3 were given"),
        (["compare", REFERENCE, HEALTHY, "--threads", "-1"], "--threads"),
        (["compare", REFERENCE, HEALTHY, "--threads", "many"], "--threads"),
        (["compare", REFERENCE, HEALTHY, "--step", "first"], "--step"),
        (["compare", REFERENCE, HEALTHY, "--color", "red"], "--color"),
        (["compare", REFERENCE, HEALTHY, "--noise"], "--noise"),
        (["merge", HEALTHY], "--output"),
    ],
)
def test_usage_errors_are_one_sentence(ttrace: Run, arguments: list, reason: str) -> None:
    check_refused(ttrace(*arguments), reason, "--help`")


# compare


@pytest.mark.parametrize("noise", [[], NOISE], ids=["fallback", "noise"])
def test_the_same_run_on_both_sides_checks_nothing(
    ttrace: Run, tmp_path: Path, noise: list
) -> None:
    for trace in (REFERENCE, HEALTHY):
        link = tmp_path / "link"
        link.symlink_to(trace)
        for pair in ((trace, trace), (trace, link), (link, trace)):
            done = ttrace("compare", *pair, *noise)
            check_answer(done, INCONCLUSIVE, SAME_RUN)
        link.unlink()
    copy = shutil.copy(REFERENCE, tmp_path / "copy.h5")
    check_answer(ttrace("compare", REFERENCE, copy, *noise), INCONCLUSIVE, SAME_RUN)
    # Another run may have the same bits.
    other = copy_as_another_run(REFERENCE, tmp_path / "other.h5")
    done = ttrace("compare", REFERENCE, other, *noise)
    check_match(done, 202)
    assert answer(done.stdout).endswith("; all values equal")


HUNDRED = {"COLUMNS": "100"}


@pytest.mark.parametrize("noise", [[], NOISE], ids=["fallback", "noise"])
def test_compare_answers(ttrace: Run, tmp_path: Path, noise: list) -> None:
    check_match(ttrace("compare", REFERENCE, HEALTHY, *noise), 202)
    done = ttrace("compare", REFERENCE, FAULTY, *noise, "--json", tmp_path / "r.json")
    check_answer(done, DIVERGED, "DIVERGED  ", first="layers.0.norm1.weight · main_grad · step 0")
    assert done.stderr == ""
    assert "missing_reduction over tp" in done.stdout
    done = ttrace("compare", REFERENCE, FAULTY, *noise, screen=True, environment=HUNDRED)
    check_answer(done, DIVERGED, "DIVERGED  the gradients of 10 of 28 parameters (")
    assert "were never summed over tp (2 ranks)" in " ".join(done.stdout.split())
    assert len(done.stdout.splitlines()) <= 15
    done = ttrace("compare", REFERENCE, HEALTHY, *noise, screen=True, environment=HUNDRED)
    assert len(done.stdout.splitlines()) <= 4
    report = read_report(tmp_path / "r.json")
    assert report["verdict"] == "diverged"
    assert report["reference"]["path"] == str(REFERENCE)
    assert len(report["results"]) == report["counts"]["total"] == 202
    assert len({key_of(result["key"]) for result in report["results"]}) == 202


def test_json_replaces_what_stood_there_and_leaves_nothing_else(
    ttrace: Run, tmp_path: Path
) -> None:
    path = tmp_path / "report.json"
    path.write_text("old")
    check_match(ttrace("compare", REFERENCE, HEALTHY, "--json", path), 202)
    assert read_report(path)["verdict"] == "match"
    assert list(tmp_path.iterdir()) == [path]
    check_refused(ttrace("compare", REFERENCE, tmp_path / "absent", "--json", path), "absent")
    assert read_report(path)["verdict"] == "match"
    assert list(tmp_path.iterdir()) == [path]


def test_an_unwritable_report_stops_the_run_before_it_begins(ttrace: Run, tmp_path: Path) -> None:
    for path in (tmp_path / "absent" / "report.json", tmp_path, Path("/dev/full/x")):
        # The traces do not exist either: the report is tried first.
        done = ttrace("compare", "no-reference", "no-run", "--json", path)
        check_refused(done, f"{path}: cannot be written")


def test_a_report_never_replaces_what_is_read(ttrace: Run, tmp_path: Path) -> None:
    reference, run = write_pair(tmp_path)
    before = {path: path.read_bytes() for path in [reference, *run.iterdir()]}
    for path in before:
        done = ttrace("compare", reference, run, "--json", path)
        check_refused(done, f"{path}: belongs to the trace that is read")
        assert {path: path.read_bytes() for path in before} == before
    check_refused(
        ttrace("compare", run, run, "--noise", reference, "--json", reference), "belongs to"
    )
    check_match(ttrace("compare", reference, run, "--json", run / "report.json"), 3)


@pytest.mark.parametrize("command", [["compare", REFERENCE, HEALTHY], ["inspect", HEALTHY]])
def test_an_answer_that_cannot_be_written_is_no_answer(command: list) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [ttrace_binary(), *command],
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert done.returncode == UNUSABLE
    assert done.stderr.startswith("ttrace: the answer cannot be written to standard output")


@pytest.mark.parametrize(
    ("command", "code", "last"),
    [
        (["compare", REFERENCE, HEALTHY], MATCH, "nothing to explain"),
        (["audit", HEALTHY], MATCH, "nothing to explain"),
        (["compare", REFERENCE, FAULTY, "--explain", "999"], DIVERGED, "there is no finding 999"),
    ],
)
def test_where_nothing_is_to_be_explained_the_verdict_stands(
    ttrace: Run, command: list, code: int, last: str
) -> None:
    if command[0] == "audit":
        command = [*command, "--specification", TESTDATA / "specification.json"]
    asked = command if "--explain" in command else [*command, "--explain", "1"]
    done = ttrace(*asked)
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith(last)


def test_all_prints_every_tensor(ttrace: Run) -> None:
    done = ttrace("compare", REFERENCE, FAULTY, "--all")
    assert done.returncode == DIVERGED
    lines = done.stdout.splitlines()
    assert sum(line.startswith("  match  ") for line in lines) == 181
    assert sum(line.startswith("  replica_conflict  ") for line in lines) == 20
    assert sum("called in" in line for line in lines) == 10


@pytest.mark.parametrize("arguments", [[], ["--color", "auto"], ["--color", "never"]])
def test_no_colour_in_a_pipe(ttrace: Run, arguments: list[str]) -> None:
    assert "\x1b" not in ttrace("compare", REFERENCE, FAULTY, *arguments).stdout


def test_colour_when_asked_for(ttrace: Run) -> None:
    done = ttrace("compare", REFERENCE, FAULTY, "--color", "always", environment={"NO_COLOR": "1"})
    assert done.stdout.startswith("\x1b[1;31mDIVERGED\x1b[0m  the gradients of 10 of 28 ")


@pytest.mark.parametrize(("no_colour", "coloured"), [("", True), ("1", False)])
def test_colour_on_a_terminal_unless_no_color(no_colour: str, coloured: bool) -> None:
    master, slave = pty.openpty()
    with subprocess.Popen(
        [ttrace_binary(), "compare", REFERENCE, HEALTHY],
        stdin=subprocess.DEVNULL,
        stdout=slave,
        env={**os.environ, "NO_COLOR": no_colour},
    ) as process:
        os.close(slave)
        shown = b""
        with contextlib.suppress(OSError):  # the end of a terminal is an error on Linux
            while block := os.read(master, 4096):
                shown += block
        assert process.wait(timeout=60) == MATCH
    os.close(master)
    assert (b"\x1b[1;32mMATCH" in shown) == coloured
    assert b"MATCH" in shown


def test_quiet_leaves_the_answer_and_no_warnings(ttrace: Run) -> None:
    arguments = ["compare", TESTDATA / "noise1.h5", HEALTHY]
    loud = ttrace(*arguments)
    assert "warning: " in loud.stderr
    assert "is a perturbed run (seed 1)" in loud.stderr
    for quiet in (ttrace(*arguments, "--quiet"), ttrace("--quiet", *arguments)):
        assert quiet.stderr == ""
        assert answer(quiet.stdout) == answer(loud.stdout)
        assert quiet.returncode == loud.returncode


def test_threads_change_nothing(ttrace: Run, tmp_path: Path) -> None:
    texts, reports = set(), set()
    for threads in ("1", "2", "7"):
        path = tmp_path / "report.json"
        done = ttrace("compare", REFERENCE, FAULTY, *NOISE, "--threads", threads, "--json", path)
        assert read_report(path)["environment"]["threads"] == int(threads)
        reports.add(without_environment(path))
        # The footer's first line tells threads and seconds.
        lines = done.stdout.splitlines()
        texts.add("\n".join(line for line in lines if not line.startswith("  reference ")))
    assert len(reports) == 1
    assert len(texts) == 1


def test_a_perturbed_run_is_no_reference(ttrace: Run) -> None:
    done = ttrace("compare", TESTDATA / "noise1.h5", HEALTHY)
    assert "noise1.h5 is a perturbed run (seed 1)" in done.stderr


# Selection


@pytest.mark.parametrize(
    ("flags", "count"),
    [
        (["--only", "layers.0.norm1*"], 11),
        (["--only", "loss", "--only", "grad_norm"], 3),
        (["--skip", "layers.*"], 42),
        (["--kind", "main_grad", "--kind", "loss"], 29),
        (["--step", "0"], 202),
        (["--only", "layers.?.norm1.weight", "--kind", "param"], 2),
    ],
)
def test_selection_means_the_same_everywhere(
    ttrace: Run, tmp_path: Path, flags: list[str], count: int
) -> None:
    path = tmp_path / "report.json"
    of = 202 if count < 202 else None
    check_match(ttrace("compare", REFERENCE, HEALTHY, *flags, "--json", path), count, of=of)
    counts = read_report(path)["counts"]
    assert (counts["match"], counts["skipped_by_rule"]) == (count, 202 - count)
    # Flags may stand before the traces too.
    check_match(ttrace("compare", *flags, REFERENCE, HEALTHY), count, of=of)
    listed = ttrace("inspect", HEALTHY, *flags)
    assert sum(" · step 0" in line for line in listed.stdout.splitlines()) == count
    merged = ttrace("merge", HEALTHY, *flags, "-o", tmp_path / "merged.h5")
    check_answer(merged, MATCH, f"MERGED  {count} tensor")


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--only", "layer.0.norm1"], "the nearest names are layers.0.norm1"),
        (["--skip", "los"], "the nearest name"),
        (["--kind", "outputs"], "the nearest names are output"),
        (["--kind", "buffer"], "no tensor is of this kind"),
        (["--step", "1"], "no tensor is of this step"),
        (["--only", "loss", "--kind", "param"], "together leave no tensor"),
        (["--only", "loss", "--only", "nobody"], "--only nobody"),
    ],
)
def test_a_selection_of_nothing_is_refused(
    ttrace: Run, tmp_path: Path, flags: list[str], reason: str
) -> None:
    merged = tmp_path / "merged.h5"
    for command in (["compare", REFERENCE, HEALTHY], ["inspect", HEALTHY],
                    ["merge", HEALTHY, "-o", merged]):  # fmt: skip
        check_refused(ttrace(*command, *flags), reason)
    assert list(tmp_path.iterdir()) == []


# Pipes


@pytest.mark.parametrize("command", [["compare", REFERENCE, FAULTY, "--all"], ["inspect", HEALTHY]])
def test_a_reader_that_leaves_early_is_no_crash(command: list) -> None:
    with subprocess.Popen(
        [ttrace_binary(), *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        said = process.stderr.read()
        exit_code = process.wait(timeout=60)
    assert said == b""
    assert exit_code in (MATCH, DIVERGED, -signal.SIGPIPE)


def test_a_reader_that_leaves_early_does_not_cost_the_report(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    command = [ttrace_binary(), "compare", REFERENCE, FAULTY, "--all", "--json", path]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        process.wait(timeout=60)
    assert read_report(path)["verdict"] == "diverged"
    assert list(tmp_path.iterdir()) == [path]
