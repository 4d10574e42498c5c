"""The library that makes calls fail does so: otherwise all tests with it would pass for nothing."""

from __future__ import annotations

import os
import subprocess
import sys

import failing_io
import pytest

# One call of each family in a folder, and some outside of it that never count.
PROGRAM = """
import os, sys
inside, outside = sys.argv[1:]
def tried(what, call):
    try:
        return call()
    except OSError as error:
        print(what, error.errno)
for folder in (outside, inside):
    os.chdir(folder)
    file = tried("open", lambda: os.open("a", os.O_CREAT | os.O_RDWR))
    if file is None:
        file = os.open(outside + "/other", os.O_CREAT | os.O_RDWR)
    print("wrote", tried("write", lambda: os.write(file, b"12345678")))
    tried("read", lambda: os.pread(file, 8, 0))
    tried("sync", lambda: os.fsync(file))
    tried("truncate", lambda: os.ftruncate(file, 4))
    tried("close", lambda: os.close(file))
    tried("rename", lambda: os.rename("a", "b"))
    tried("link", lambda: os.link("b" if os.path.exists("b") else "a", "c"))
    tried("unlink", lambda: os.unlink("c"))
    tried("mkdir", lambda: os.mkdir("d"))
"""
FAMILIES = ["open", "write", "read", "sync", "truncate", "close", "rename", "link", "unlink"]
EVERY = [*FAMILIES, "mkdir"]


def run(tmp_path, **options):
    """What the program printed, and what was counted of it."""
    inside, outside, count = tmp_path / "in", tmp_path / "inner", tmp_path / "count"
    inside.mkdir()
    outside.mkdir()
    settings = failing_io.variables(inside, count=count, **options)
    command = [sys.executable, "-c", PROGRAM, str(inside), str(outside)]
    done = subprocess.run(
        command, env={**os.environ, **settings}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), failing_io.counted(count)


def test_calls_below_the_folder_are_counted_in_order(tmp_path):
    said, calls = run(tmp_path, calls=EVERY)
    assert said == ["wrote 8", "wrote 8"]
    assert [call.number for call in calls] == list(range(1, len(EVERY) + 1))
    assert [call.call for call in calls] == EVERY
    assert {call.path for call in calls} <= {str(tmp_path / "in" / name) for name in "abcd"}


@pytest.mark.parametrize("at", range(1, len(EVERY) + 1))
def test_the_call_with_that_number_fails_and_no_other(tmp_path, at):
    said, _ = run(tmp_path, at=at, error="EIO", calls=EVERY)
    failed = [line for line in said if not line.startswith("wrote")]
    # Where a file was not made or linked, what follows misses it (ENOENT is 2).
    assert failed[0] == f"{EVERY[at - 1]} 5"
    assert all(line.endswith(" 2") for line in failed[1:])


def test_families_numbers_and_times(tmp_path):
    said, calls = run(tmp_path, at=1, error="ENOSPC", calls=["sync", "close"], times=5)
    assert said == ["wrote 8", "wrote 8", "sync 28", "close 28"]
    assert [call.call for call in calls] == ["sync", "close"]


def test_a_short_write_moves_the_half(tmp_path):
    said, _ = run(tmp_path, at=1, error="SHORT", calls=["write"])
    assert said == ["wrote 8", "wrote 4"]


def test_nothing_fails_unless_asked_for(tmp_path):
    said, calls = run(tmp_path)
    assert said == ["wrote 8", "wrote 8"] and "read" not in {call.call for call in calls}
