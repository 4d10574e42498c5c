"""compare --resume STATE: what was finished is not done again, and no answer is another one."""

from __future__ import annotations

import fcntl
import json
import os
import random
import resource
import shutil
import subprocess
import time
from pathlib import Path

import h5py
import pytest
from support.same_report import json_but_environment, text_but_environment
from support.synth import synth, tensors
from support.ttrace_cli import DIVERGED, MATCH, TESTDATA, UNUSABLE, ttrace_binary

from .conftest import Run
from .slow_traces import SLOW, write_zeros
from .small_traces import check_answer, check_match, check_refused, write_pair

REF = TESTDATA / "ref.h5"
BUGGY = [REF, TESTDATA / "tp2sp_p12", "--noise", TESTDATA / "noise1.h5"]
SECONDS = 120


@pytest.fixture(scope="session")
def whole(ttrace: Run, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, bytes]:
    """Text and JSON of a comparison in one go, and the state it leaves."""
    folder = tmp_path_factory.mktemp("whole")
    done = ttrace("compare", *BUGGY, "--json", folder / "plain.json")
    kept = ttrace("compare", *BUGGY, "--json", folder / "kept.json", "--resume", folder / "state")
    text = text_but_environment(done.stdout)
    told = json_but_environment(folder / "plain.json")
    assert text_but_environment(kept.stdout) == text
    assert json_but_environment(folder / "kept.json") == told
    return text, told, (folder / "state").read_bytes()


def check_same(ttrace: Run, folder: Path, state: Path, whole: tuple[str, str, bytes]) -> None:
    done = ttrace("compare", *BUGGY, "--json", folder / "again.json", "--resume", state)
    assert done.returncode == DIVERGED, done.stderr
    assert done.stderr == ""
    assert text_but_environment(done.stdout) == whole[0]
    assert json_but_environment(folder / "again.json") == whole[1]
    assert sorted(state.read_bytes().splitlines()) == sorted(whole[2].splitlines())


def test_a_state_cut_anywhere(ttrace: Run, tmp_path: Path, whole: tuple[str, str, bytes]) -> None:
    """As a killed process leaves it: in the header, between lines, within one, at its end."""
    state = whole[2]
    header = state.index(b"\n") + 1
    second = state.index(b"\n", header) + 1
    cuts = [0, 1, header // 2, header - 1, header, header + 1, second - 1, second, second + 1]
    cuts += [len(state) - 1, len(state)]
    cuts += [random.Random(cut).randrange(len(state)) for cut in range(10)]
    for cut in cuts:
        path = tmp_path / "state"
        path.write_bytes(state[:cut])
        check_same(ttrace, tmp_path, path, whole)


def test_what_is_known_is_not_read_again(ttrace: Run, tmp_path: Path) -> None:
    ref, run = write_pair(tmp_path)
    command = ["compare", ref, run, "--resume", tmp_path / "state"]
    check_match(ttrace(*command), 3)
    state = (tmp_path / "state").read_bytes()
    check_match(ttrace(*command), 3)
    assert (tmp_path / "state").read_bytes() == state
    # The same bytes at another time are the same run.
    for file in run.iterdir():
        os.utime(file, ns=(1, 1))
    check_match(ttrace(*command), 3)
    assert (tmp_path / "state").read_bytes() == state


# What is done to files whose sizes and times stay: to a trace, a row of the candidate's rank 1.
def spoil_trace(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        dataset = file["step_000000/param_after_step/final_norm.weight"]
        dataset[0] = dataset[0] * 1.5


def spoil_text(path: Path) -> None:
    path.write_text(path.read_text().replace("4", "5", 1))


CHANGES = {
    "the run": ("run/rank_00001.h5", spoil_trace),
    "the reference": ("ref.h5", spoil_trace),
    "a noise run": ("noise.h5", spoil_trace),
    "the tolerance": ("tolerance.json", spoil_text),
    "the map": ("map.json", lambda path: path.write_text(" " + path.read_text()[:-1])),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("way", ["resume", "merge"])
def test_other_bytes_of_equal_size_and_time(
    ttrace: Run, tmp_path: Path, way: str, change: str
) -> None:
    """As archives, image layers, object stores and `cp -p` leave them."""
    shutil.copytree(TESTDATA / "tp2sp", tmp_path / "run")
    shutil.copy(REF, tmp_path)
    shutil.copy(TESTDATA / "noise1.h5", tmp_path / "noise.h5")
    made = ttrace("calibrate", REF, TESTDATA / "noise1.h5", "-o", tmp_path / "tolerance.json")
    assert made.returncode == MATCH
    rules = '{"schema": "ttrace.map/2", "candidate": [{"from": "loss", "to": "loss"}]} '
    (tmp_path / "map.json").write_text(rules)
    given = ["--map", tmp_path / "map.json"]
    if change == "a noise run":
        given += ["--noise", tmp_path / "noise.h5"]
    else:
        given += ["--tolerance", tmp_path / "tolerance.json"]
    command = ["compare", tmp_path / "ref.h5", tmp_path / "run", *given]
    parts = [tmp_path / "part1.json", tmp_path / "part2.json"]
    command += ["--resume", tmp_path / "state"] if way == "resume" else []
    for number, part in enumerate(parts, 1):
        split = ["--part", f"{number}/2", "--json", part] if way == "merge" else []
        assert ttrace(*command, *split).returncode == MATCH
    again = command if way == "resume" else ["report", "merge", *parts]
    assert ttrace(*again).returncode == MATCH
    name, spoil = CHANGES[change]
    facts = (tmp_path / name).stat()
    spoil(tmp_path / name)
    assert (tmp_path / name).stat().st_size == facts.st_size
    os.utime(tmp_path / name, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    words = "is the state of another comparison" if way == "resume" else "the inputs have changed"
    check_refused(ttrace(*again), words)


def test_one_tensor_of_many_in_a_large_file(ttrace: Run, tmp_path: Path) -> None:
    """Of 24 MiB the sample has a third of the blocks, 85 in each tensor of 1 MiB."""
    paths = [tmp_path / "ref.h5", tmp_path / "run.h5"]
    for path in paths:
        synth(path, tensors(24, [512, 512], kind="param"))
    command = ["compare", *paths, "--resume", tmp_path / "state"]
    code = ttrace(*command).returncode
    assert ttrace(*command).returncode == code != UNUSABLE
    facts = paths[1].stat()
    found: list[h5py.Dataset] = []
    with h5py.File(paths[1]) as file:
        file.visititems(lambda _, item: found.append(item) if hasattr(item, "nbytes") else None)
        places = [one.id.get_offset() for one in found if one.nbytes == 1 << 20]
    assert len(places) == 24
    for place in (places[0], places[11], places[23]):
        before = paths[1].read_bytes()
        paths[1].write_bytes(before[:place] + bytes(1 << 20) + before[place + (1 << 20) :])
        os.utime(paths[1], ns=(facts.st_atime_ns, facts.st_mtime_ns))
        check_refused(ttrace(*command), "is the state of another comparison", str(paths[1]))
        paths[1].write_bytes(before)


def test_an_audit_goes_on_with_the_same_bytes_alone(ttrace: Run, tmp_path: Path) -> None:
    run = shutil.copytree(TESTDATA / "tp2sp", tmp_path / "run")
    command = ["audit", run, "--resume", tmp_path / "state"]
    code = ttrace(*command).returncode
    assert ttrace(*command).returncode == code != UNUSABLE
    facts = (run / "rank_00001.h5").stat()
    spoil_trace(run / "rank_00001.h5")
    os.utime(run / "rank_00001.h5", ns=(facts.st_atime_ns, facts.st_mtime_ns))
    check_refused(ttrace(*command), "is the state of another audit", str(run))


def test_what_could_not_be_read_is_tried_again(ttrace: Run, tmp_path: Path) -> None:
    """A file that a network file system would not give, which its bytes do not show."""
    ref, run = write_pair(tmp_path)
    command = ["compare", ref, run, "--resume", tmp_path / "state"]
    check_match(ttrace(*command), 3)
    header = (tmp_path / "state").read_bytes().splitlines(keepends=True)[0]
    (tmp_path / "state").unlink()
    lost = run / "rank_00001.h5"
    shutil.copy2(lost, tmp_path / "kept.h5")
    lost.write_bytes(bytes(lost.stat().st_size))
    check_answer(ttrace(*command), 3, "INCONCLUSIVE")
    shutil.copy2(tmp_path / "kept.h5", lost)
    lines = (tmp_path / "state").read_bytes().splitlines(keepends=True)
    (tmp_path / "state").write_bytes(header + b"".join(lines[1:]))
    check_match(ttrace(*command), 3)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--skip", "layers.1*"], "--skip is not given there and layers.1* here"),
        (["--common"], "--common is not given there and given here"),
        (["--noise", TESTDATA / "noise2.h5"], "--noise is "),
        (["--step", "0"], "--step is not given there and 0 here"),
    ],
)
def test_the_state_of_another_comparison(
    ttrace: Run, tmp_path: Path, whole: tuple[str, str, bytes], flags: list, words: str
) -> None:
    state = tmp_path / "state"
    state.write_bytes(whole[2])
    done = ttrace("compare", *BUGGY, *flags, "--resume", state)
    check_refused(done, f"{state}: is the state of another comparison: {words}", "give another")
    assert state.read_bytes() == whole[2]


def test_the_state_of_other_tolerances(ttrace: Run, tmp_path: Path) -> None:
    tolerance = tmp_path / "tolerance.json"
    ttrace("calibrate", REF, TESTDATA / "noise1.h5", "-o", tolerance)
    command = ["compare", REF, TESTDATA / "tp2sp", "--tolerance", tolerance]
    command += ["--resume", tmp_path / "state"]
    assert ttrace(*command).returncode == MATCH
    calibration = json.loads(tolerance.read_text())
    calibration["rules"] = [{"name": "layers.0*", "multiplier": 8}]
    tolerance.write_text(json.dumps(calibration))
    check_refused(ttrace(*command), f"the file {tolerance} was ")


def test_files_that_are_no_state(
    ttrace: Run, tmp_path: Path, whole: tuple[str, str, bytes]
) -> None:
    ref, run = write_pair(tmp_path)
    for content in (b"my thesis\n", b"my thesis", b"{}\n", b'{"schema":"ttrace.state/1"}\n', b"\0"):
        file = tmp_path / "file"
        file.write_bytes(content)
        done = ttrace("compare", ref, run, "--resume", file)
        check_refused(done, f"{file}: is no state file of --resume, and is not changed")
        assert file.read_bytes() == content
    check_refused(ttrace("compare", ref, run, "--resume", tmp_path), str(tmp_path))
    check_refused(ttrace("compare", ref, run, "--resume", "/dev/full"), "not a regular file")
    check_refused(ttrace("compare", ref, run, "--resume", tmp_path / "no" / "state"), "No such")
    check_refused(ttrace("compare", ref, run, "--resume", ref), "belongs to the trace")
    check_refused(ttrace("compare", ref, run, "--resume", "a", "--json", "a"), "the same file")
    check_refused(
        ttrace("compare", ref, run, "--resume", run / "rank_00000.h5"), "belongs to the trace"
    )
    lines = whole[2].splitlines(keepends=True)
    for line in (b"x\n", b"\n", lines[1][:9] + lines[1][10:], lines[1][40:]):
        (tmp_path / "damaged").write_bytes(lines[0] + lines[1] + line + lines[2])
        done = ttrace("compare", *BUGGY, "--resume", tmp_path / "damaged")
        check_refused(done, f"{tmp_path}/damaged: line 3 ", "remove the file to begin anew")


def limit_files() -> None:
    """From here on the disk is full, as far as this process goes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))


def test_a_full_disk(tmp_path: Path, whole: tuple[str, str, bytes], ttrace: Run) -> None:
    state = tmp_path / "state"
    done = subprocess.run(
        [ttrace_binary(), "compare", "--all", *BUGGY, "--resume", state],
        capture_output=True,
        text=True,
        preexec_fn=limit_files,
        restore_signals=False,  # SIGXFSZ stays ignored: writing fails instead
        env={**os.environ, "COLUMNS": "100000"},
        check=False,
    )
    assert done.returncode == DIVERGED
    assert text_but_environment(done.stdout) == whole[0]
    assert done.stderr.startswith(f"ttrace: warning: {state}: cannot be written (")
    assert done.stderr.count("\n") == 1
    assert state.stat().st_size == 6000
    check_same(ttrace, tmp_path, state, whole)


def test_two_processes_with_one_state(ttrace: Run, tmp_path: Path) -> None:
    ref, run = write_pair(tmp_path)
    with (tmp_path / "state").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = ttrace("compare", ref, run, "--resume", tmp_path / "state")
    check_refused(done, "another ttrace is writing it")


def test_a_process_that_is_killed(ttrace: Run, tmp_path: Path) -> None:
    ref = write_zeros(tmp_path / "ref.h5", *SLOW)
    run = write_zeros(tmp_path / "run.h5", *SLOW)
    state = tmp_path / "state"
    command = ["compare", ref, run, "--threads", "1", "--resume", state, "--json"]
    process = subprocess.Popen(
        [ttrace_binary(), *command, tmp_path / "killed.json"], stdout=subprocess.PIPE
    )
    while process.poll() is None and (not state.exists() or state.read_bytes().count(b"\n") < 3):
        time.sleep(0.01)
    process.kill()
    assert process.communicate()[0] == b"" and process.returncode == -9
    with state.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # until the last of it is gone
    known = state.read_bytes().count(b"\n") - 1
    assert 2 <= known < 24
    assert not (tmp_path / "killed.json").exists()
    done = ttrace(*command, tmp_path / "again.json", timeout=SECONDS)
    check_match(done, 24)
    assert len(set(state.read_bytes().splitlines())) == 25
    ttrace("compare", ref, run, "--json", tmp_path / "plain.json", timeout=SECONDS)
    told = json_but_environment(tmp_path / "again.json")
    assert told == json_but_environment(tmp_path / "plain.json")
