"""The study of releases: which it takes, with which Python, and what it leaves of its page."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from releases import environments, study
from releases.environments import CannotInstallError
from releases.packages import PACKAGES
from support.ttrace_cli import REPOSITORY

OLD, NEW = Path("python3.11"), Path("python3.12")
SERVED = {None: ["2.0", "1.1", "1.0"], OLD: ["1.1", "1.0"], NEW: ["2.0", "1.1"]}


@pytest.fixture
def index(monkeypatch):
    monkeypatch.setattr(environments, "pythons", lambda: {"3.12": NEW, "3.11": OLD})
    monkeypatch.setattr(environments, "releases", lambda _, python=None: SERVED[python])


def test_a_release_takes_the_first_python_that_the_index_serves_it_for(index):
    assert [environments.python_for("some", r) for r in SERVED[None]] == ["3.12", "3.12", "3.11"]


def test_a_release_that_takes_no_python_here_is_told(index, tmp_path):
    with pytest.raises(CannotInstallError, match=r"takes no Python that is here \(3.12, 3.11\)"):
        environments.python_for("some", "3.0")
    cells, sound = study.Study(tmp_path).row("torch", "3.0")
    assert cells[2] == "not run: it takes no Python that is here (3.12, 3.11)" and sound


def test_the_reason_of_a_crash_of_pip_is_told():
    crash = 'import sys; sys.exit("ERROR: Exception:\\nTraceback:\\nReadTimeoutError: timed out")'
    with pytest.raises(CannotInstallError, match="does not install: ReadTimeoutError: timed out"):
        environments._run([sys.executable, "-c", crash])


def test_a_package_that_starts_with_the_base_starts_beside_it_too(tmp_path, monkeypatch):
    # As setuptools does, which stands in for distutils.
    def make(folder, version):
        environments._run([sys.executable, "-m", "venv", "--without-pip", folder])
        return folder / "bin" / "python"

    monkeypatch.setattr(environments, "make", make)
    base = environments.make(tmp_path / "base", "")
    inside = environments._packages(base)
    (inside / "stand_in.py").write_text("import sys; sys.modules['gone'] = sys", encoding="utf-8")
    (inside / "first.pth").write_text("import stand_in\n", encoding="utf-8")
    python = environments.upon(tmp_path / "upon", "", base)
    environments._run([python, "-c", "import gone"])


def test_what_ended_a_training_is_told(tmp_path):
    launcher = tmp_path / "launch.py"
    told = "x.ProcessExitedException: process 0 terminated with signal SIGKILL"
    launcher.write_text(f'raise SystemExit("{told}")', encoding="utf-8")
    study.train(sys.executable, launcher, 1, {"healthy": {}}, tmp_path / "out")
    assert told in study.compare(tmp_path, tmp_path / "out", "healthy")


def test_the_newest_come_first_and_the_newest_torch_is_installed_once(index):
    newest, chosen = study.wanted([])
    assert list(newest) == list(PACKAGES) and len(chosen) == 3 * len(PACKAGES)
    assert chosen[: len(PACKAGES)] == [(name, "2.0") for name in PACKAGES]
    assert chosen[-2:] == [("torch", "1.1"), ("torch", "1.0")]
    assert study.wanted(["trl 2.0"]) == ({"trl": SERVED[None]}, [("trl", "2.0")])


def test_the_page_keeps_its_rows_and_drops_older_releases(tmp_path):
    page = tmp_path / "page.md"
    names = ("torch 1", "trl 2", "trl 1")
    rows = {n: f"| {n} | Python | MATCH | DIVERGED | all | day |\n" for n in names}
    page.write_text(study.page_of(rows, {}), encoding="utf-8")
    assert study.lines_of(page) == rows
    later = study.page_of(study.lines_of(page), {"trl": ["3", "2"]})
    assert "| trl 3 |  | not run yet |" in later
    assert rows["torch 1"] in later and rows["trl 2"] in later and rows["trl 1"] not in later


def test_every_row_of_the_page_is_of_a_package():
    lines = study.lines_of(REPOSITORY / "tests" / "frameworks" / "RELEASES.md")
    counts = {name: sum(row.split()[0] == name for row in lines) for name in PACKAGES}
    assert set(counts.values()) == {study.RELEASES} and sum(counts.values()) == len(lines)
