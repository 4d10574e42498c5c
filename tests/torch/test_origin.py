"""What a trace says of where it was recorded."""

from __future__ import annotations

import platform
import subprocess

import pytest

from ttrace_torch.base.origin import origin


@pytest.fixture
def script(tmp_path, monkeypatch):
    path = tmp_path / "train.py"
    path.touch()
    monkeypatch.setattr("sys.argv", [str(path)])
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    return path


def test_the_commit_of_a_script_is_that_of_its_repository(script):
    assert origin() == {"host": platform.node()}

    def git(*words):
        named = ["-c", "user.name=a", "-c", "user.email=a@b"]
        done = subprocess.run(
            ["git", *named, *words], cwd=script.parent, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "one")
    assert origin() == {"commit": git("rev-parse", "HEAD"), "host": platform.node()}


def test_without_git_the_host_is_left(script, monkeypatch):
    monkeypatch.setenv("PATH", str(script.parent))
    assert origin() == {"host": platform.node()}


def test_a_folder_that_must_not_be_read_ends_no_job(script, monkeypatch):
    def refused(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("pathlib.Path.is_dir", refused)
    assert origin() == {"host": platform.node()}
