"""The browser, and pages of real answers."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
from support.ttrace_cli import TESTDATA, run_ttrace

from page.browser import Browser, find_browser


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    program = find_browser()
    if program is None:
        pytest.skip("no Chromium or Chrome on this machine")
    one = Browser(program, tmp_path_factory.mktemp("browser"))
    yield one
    one.close()


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="session")
def answer(folder) -> Path:
    """Norms whose gradients are not summed over tp: a finding of ten gradients."""
    path = folder / "answer.json"
    noise = [argument for one in (1, 2, 3) for argument in ("--noise", TESTDATA / f"noise{one}.h5")]
    pair = (TESTDATA / "ref.h5", TESTDATA / "tp2sp_p12")
    done = run_ttrace("compare", *pair, *noise, "--json", path, "--html", folder / "answer.html")
    assert done.returncode == 1, done.stderr
    return path


def page_of(json_file: Path) -> Path:
    page = json_file.with_suffix(".html")
    done = run_ttrace("report", "show", json_file, "--format", "html", "-o", page)
    assert done.returncode == 0, done.stderr
    return page


@pytest.fixture(scope="session")
def large(answer, folder) -> Path:
    """Ten thousand tensors, all diverged."""
    report = json.loads(answer.read_text())
    wrong = [one for one in report["results"] if one["outcome"] == "replica_conflict"]
    results = []
    for number in range(10_000):
        one = copy.deepcopy(wrong[number % len(wrong)])
        one["outcome"] = "diverged"
        one["key"]["name"] = f"layers.{number // 20}.mlp.part_{number % 20}.weight"
        one["key"]["microbatch"] = number % 4
        one["used"] = 2.0 + number
        key = one["key"]
        one["id"] = f"{key['step']}/{key['microbatch']}/{key['kind']}/{key['name']}/0/0"
        results.append(one)
    report["results"] = results
    path = folder / "large.json"
    path.write_text(json.dumps(report))
    return page_of(path)
