"""Reports, headers and states that were made to cost memory: bounded by --memory, one sentence,
seconds."""

from __future__ import annotations

import gzip
import json
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.ttrace_cli import DIVERGED, TESTDATA, UNUSABLE, ttrace_binary

from .conftest import Run
from .small_traces import write_pair

LIMIT = 64 << 20
# Of the program and its libraries, which --memory does not count.
PROGRAM = 64 << 20
SECONDS = 10

# By a small process of its own: what a process was before it became the program counts too.
MEASURE = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
print(done.stderr.decode(), end="")
"""


def measured(*arguments: str | Path) -> tuple[int, int, str]:
    """Exit code, the largest resident size of any process in bytes, and what it said."""
    command = [sys.executable, "-S", "-c", MEASURE, ttrace_binary(), *arguments]
    done = subprocess.run(
        [*command, "--memory", "64M"], capture_output=True, text=True, timeout=120, check=True
    )
    first, said = done.stdout.split("\n", 1)
    exit_code, peak = first.split()
    return int(exit_code), int(peak), said


@pytest.fixture(scope="module")
def answer(ttrace: Run, tmp_path_factory: pytest.TempPathFactory) -> dict:
    """A report with a finding."""
    file = tmp_path_factory.mktemp("answer") / "r.json"
    done = ttrace("compare", TESTDATA / "ref.h5", TESTDATA / "tp2sp_p12", "--json", file)
    assert done.returncode == DIVERGED
    report = json.loads(file.read_text())
    return {**report, "results": [one for one in report["results"] if "used" in one][:3]}


def listed(item: str, count: int) -> str:
    return ",".join([item] * count)


# A text of about `count` values, of an answer.
Shape = Callable[[dict, int], str]


def with_list(member: str, item: str) -> Shape:
    def text(answer: dict, count: int) -> str:
        whole = json.dumps({**answer, member: ["@"]})
        return whole.replace('"@"', listed(item, count // max(1, item.count(",") + 1)))

    return text


def with_results(answer: dict, count: int) -> str:
    key = '{"step":0,"microbatch":null,"kind":"output","name":"n","call":0}'
    items = (f'{{"id":"{i}","key":{key},"outcome":"match"}}' for i in range(count // 10))
    whole = json.dumps({**answer, "results": ["@"]}, separators=(",", ":"))
    return whole.replace('"@"', ",".join(items))


def with_members(answer: dict, count: int) -> str:
    finding = {**answer["findings"][0], "members": ["@"]}
    whole = json.dumps({**answer, "findings": [finding]}, separators=(",", ":"))
    return whole.replace('"@"', ",".join(f'"{i}"' for i in range(count)))


SHAPES: dict[str, Shape] = {
    "empty lists": lambda _, count: f"[{listed('[]', count)}]",
    "empty objects": lambda _, count: f"[{listed('{}', count)}]",
    "numbers": lambda _, count: f"[{listed('1', count)}]",
    "strings": lambda _, count: f"[{listed(chr(34) * 2, count)}]",
    "keys": lambda _, count: "{" + ",".join(f'"{i:x}":0' for i in range(count)) + "}",
    "a key twice": lambda _, count: f"{{{listed(chr(34) * 2 + ':0', count)}}}",
    "deep": lambda _, count: "[" * count,
    "a string": lambda answer, count: json.dumps({**answer, "headline": "x" * count * 8}),
    "spaces": lambda _, count: " " * count * 8 + "{}",
    "results": with_results,
    "findings": with_list("findings", '{"id":"","outcome":""}'),
    "warnings": with_list("warnings", '""'),
    "members": with_members,
    "selection": with_list("selection", '{"a":0}'),
}
# With about as many values as are read; and many more, which no reader gets to see.
READERS = {
    "html": (["report", "show", "--format", "html", "-o", "page.html"], 700_000),
    "diff": (["report", "diff"], 700_000),
    "explain": (["explain", "1"], 700_000),
    "show": (["report", "show"], 2_000_000),
}


@pytest.fixture(scope="module")
def hostile(answer: dict, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], Path]:
    """A file of a shape, written once: making one takes longer than reading it."""
    folder = tmp_path_factory.mktemp("hostile")

    def written(shape: str, count: int) -> Path:
        file = folder / f"{shape}_{count}.json.gz"
        if not file.exists():
            file.write_bytes(gzip.compress(SHAPES[shape](answer, count).encode(), 1))
        return file

    return written


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_hostile_report_is_bounded(
    shape: str,
    reader: str,
    hostile: Callable[[str, int], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, count = READERS[reader]
    file = hostile(shape, count)
    begin = time.monotonic()
    exit_code, peak, said = measured(*arguments, *([file] * (2 if reader == "diff" else 1)))
    assert time.monotonic() - begin < SECONDS
    assert peak <= LIMIT + PROGRAM, (peak >> 20, said)
    if reader == "show":
        assert exit_code == UNUSABLE and "than --memory allows" in said, said
    if exit_code == UNUSABLE:
        assert said.startswith("ttrace: ") and said.count("\n") == 1, said
    else:
        assert exit_code in (0, 1, 3), said


def listing(answer: dict, results: list[dict]) -> dict:
    return {**answer, "results": results, "counts": {**answer["counts"], "total": len(results)}}


def test_an_honest_report_of_five_thousand_tensors_is_read(answer: dict, tmp_path: Path) -> None:
    one = answer["results"][0]
    results = [{**one, "id": f"0/-/output/layer.{i}/0"} for i in range(5_000)]
    (tmp_path / "r.json").write_text(json.dumps(listing(answer, results)))
    exit_code, peak, said = measured("report", "diff", tmp_path / "r.json", tmp_path / "r.json")
    assert (exit_code, said) == (0, ""), said
    assert peak <= LIMIT + PROGRAM


def test_a_trend_keeps_what_it_needs(answer: dict, tmp_path: Path) -> None:
    """Forty nights of 2,000 tensors, whose reports together are larger than what is allowed."""
    one = answer["results"][0]
    results = [{**one, "id": f"0/-/output/layer.{i}/0"} for i in range(2_000)]
    night = tmp_path / "night.json"
    night.write_text(json.dumps(listing(answer, results)))
    nights = [night] * (2 * LIMIT // night.stat().st_size)
    exit_code, peak, said = measured("report", "trend", *nights, "--json", tmp_path / "trend.json")
    assert (exit_code, said) == (0, ""), said
    assert peak <= LIMIT + PROGRAM, peak >> 20
    trend = json.loads((tmp_path / "trend.json").read_text())
    assert len(trend["tensors"]) == 2_000
    assert {len(tensor["used"]) for tensor in trend["tensors"]} == {len(nights)}


def header_of(count: int) -> bytes:
    return b",".join(
        b'"layers.%d.w":{"dtype":"F32","shape":[1],"data_offsets":[%d,%d]}' % (i, 4 * i, 4 * i + 4)
        for i in range(count)
    )


HEADERS: dict[str, tuple[Callable[[], bytes], int]] = {
    "a million tensors": (lambda: b"{%s}" % header_of(1_000_000), 4_000_000),
    "keys": (
        lambda: b'{"__metadata__":{%s}}' % b",".join(b'"%d":""' % i for i in range(3_000_000)),
        0,
    ),
    "numbers": (lambda: b'{"a":{"shape":[' + b"1," * 20_000_000 + b"1]}}", 0),
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_large_header_is_bounded(name: str, tmp_path: Path) -> None:
    make, data = HEADERS[name]
    text = make()
    file = tmp_path / "x.safetensors"
    file.write_bytes(struct.pack("<Q", len(text)) + text + bytes(data))
    begin = time.monotonic()
    exit_code, peak, said = measured("inspect", file)
    assert exit_code == UNUSABLE and said.count("\n") == 1, said
    assert ("not a trace" if data else "its values take more than") in said
    assert peak <= LIMIT + PROGRAM, peak >> 20
    assert time.monotonic() - begin < SECONDS


def test_a_state_that_ends_in_no_line_is_bounded(ttrace: Run, tmp_path: Path) -> None:
    reference, run = write_pair(tmp_path)
    state = tmp_path / "state"
    assert ttrace("compare", reference, run, "--resume", state).returncode == 0
    with state.open("ab") as file:
        file.write(b'{"x":"' + b"x" * (200 << 20) + b'"}\n')
    exit_code, peak, said = measured("compare", reference, run, "--resume", state)
    assert exit_code == UNUSABLE, said
    assert "is longer than 67.1 MB; remove the file" in said
    assert peak <= LIMIT + 2 * PROGRAM, peak >> 20


# What the system refuses


@pytest.mark.parametrize(
    "limit", ["-s 64", "-s 256", "-v 40000", "-v 80000", "-v 120000", "-d 20000"]
)
def test_little_of_the_system_is_one_sentence(limit: str, tmp_path: Path) -> None:
    """Exit code 2 with one sentence, or the answer; never a crash without a word."""
    reference, run = write_pair(tmp_path)
    for arguments in (["compare", reference, run], ["inspect", run], ["--version"]):
        command = ["bash", "-c", f'ulimit {limit}; exec "$@"', "bash", ttrace_binary(), *arguments]
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", timeout=60, check=False
        )
        told = done.stderr.count("\n") == 1 and done.stderr.startswith("ttrace: ")
        if done.returncode == 0:
            assert done.stdout, (limit, arguments)
        elif done.returncode == 127:  # the loader, before the program
            assert "loading shared libraries" in done.stderr
        else:
            assert done.returncode == UNUSABLE and told, (limit, arguments, done)
        if limit.startswith("-s"):
            assert done.returncode == UNUSABLE and "`ulimit -s`" in done.stderr, done
