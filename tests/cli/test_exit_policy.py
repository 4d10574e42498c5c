"""--require KIND... and --fail-on new --since OLD.json: what makes a pipeline fail."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.reports import read_report
from support.ttrace_cli import DIVERGED, INCONCLUSIVE, MATCH, TESTDATA, UNUSABLE

from .conftest import Run
from .small_traces import check_refused

REFERENCE = TESTDATA / "ref.h5"
HEALTHY = TESTDATA / "tp2sp"
FAULTY = TESTDATA / "tp2sp_p12"


@pytest.mark.parametrize(
    ("flags", "exit_code", "why"),
    [
        (["--require", "loss,main_grad"], MATCH, ""),
        (["--require", "loss", "--require", "output"], MATCH, ""),
        (["--require", "buffer"], INCONCLUSIVE, "buffer was required, and there is none"),
        (
            ["--require", "output", "--skip", "*mlp*"],
            INCONCLUSIVE,
            "output was required, and 21 of 27",
        ),
    ],
)
def test_required_kinds(
    ttrace: Run, tmp_path: Path, flags: list[str], exit_code: int, why: str
) -> None:
    out = tmp_path / "report.json"
    done = ttrace("compare", REFERENCE, HEALTHY, *flags, "--json", out)
    assert done.returncode == exit_code, done.stdout
    report = read_report(out)
    assert report["exit_code"] == exit_code and why in report.get("why", "")
    assert done.stdout.splitlines()[0].endswith(report["headline"])
    assert {one["kind"] for one in report["required"]} <= {"loss", "main_grad", "output", "buffer"}
    # What is wrong stays wrong.
    assert ttrace("compare", REFERENCE, FAULTY, *flags).returncode in (DIVERGED, exit_code)


def test_an_audit_checks_no_given_tensor(ttrace: Run) -> None:
    command = ["audit", HEALTHY, "--specification", TESTDATA / "specification.json"]
    assert ttrace(*command, "--require", "main_grad,loss").returncode == MATCH
    done = ttrace(*command, "--require", "param")
    assert done.returncode == INCONCLUSIVE
    assert done.stdout.startswith(
        "INCONCLUSIVE  nothing is wrong, but param was required, and 0 of"
    )


def test_only_what_is_new_fails(ttrace: Run, tmp_path: Path) -> None:
    nights = {}
    for name, run in (("good", HEALTHY), ("bad", FAULTY)):
        nights[name] = tmp_path / f"{name}.json.gz"
        ttrace("compare", REFERENCE, run, "--json", nights[name])
    out = tmp_path / "out.json"
    new = ["--fail-on", "new", "--json", out, "--since"]
    done = ttrace("compare", REFERENCE, FAULTY, *new, nights["bad"])
    assert done.returncode == MATCH
    assert done.stdout.startswith(f"DIVERGED  nothing new since {nights['bad']}: ")
    report = read_report(out)
    assert (report["verdict"], report["exit_code"]) == ("diverged", MATCH)
    assert report["since"]["verdict"] == "nothing new"
    done = ttrace("compare", REFERENCE, FAULTY, *new, nights["good"])
    assert done.returncode == DIVERGED
    assert done.stdout.startswith(
        f"DIVERGED  new since {nights['good']}: 21 tensors newly diverged"
    )
    assert ttrace("compare", REFERENCE, HEALTHY, *new, nights["bad"]).returncode == MATCH
    line = ttrace("compare", REFERENCE, FAULTY, *new, nights["bad"], "--format", "line").stdout
    assert line.count("\n") == 1


def test_mistakes_are_told_at_once(ttrace: Run, tmp_path: Path) -> None:
    compare = ["compare", REFERENCE, FAULTY]
    check_refused(ttrace(*compare, "--fail-on", "new"), "needs --since OLD.json")
    old = tmp_path / "old.json"
    ttrace(*compare, "--json", old)
    check_refused(ttrace(*compare, "--since", old), "no effect without --fail-on new")
    cut = tmp_path / "cut.json"
    cut.write_bytes(old.read_bytes()[:999])
    check_refused(ttrace(*compare, "--fail-on", "new", "--since", cut), cut, "not valid JSON")
    check_refused(ttrace(*compare, "--require", "los"), "is no kind of tensor", "loss")
    done = ttrace(*compare, "--fail-on", "new", "--since", old, "--json", old)
    check_refused(done, "name the same file")
    done = ttrace(*compare, "--part", "1/2", "--require", "loss", "--json", tmp_path / "p.json")
    assert done.returncode == UNUSABLE and "ttrace report merge" in done.stderr
