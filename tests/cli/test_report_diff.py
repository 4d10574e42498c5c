"""`ttrace report diff OLD NEW`: two nights are joined by ids, and what is not known is said."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.reports import read_report
from support.ttrace_cli import DIVERGED, INCONCLUSIVE, MATCH, TESTDATA

from cli.test_pipeline_files import results_of, suite_of

from .conftest import Run
from .small_traces import check_refused

Json = dict[str, Any]
REFERENCE = TESTDATA / "ref.h5"
FOLLOWING = "0/-/grad_norm/grad_norm/0/0"  # follows from the finding
FIRST = "0/-/main_grad/layers.0.norm1.weight/0/0"
RIGHT = "0/0/output/layers.0.mlp.fc1/0/0"


@pytest.fixture(scope="module")
def nights(ttrace: Run, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("nights")
    files = {"good": folder / "good.json", "bad": folder / "bad.json"}
    ttrace("compare", REFERENCE, TESTDATA / "tp2sp", "--json", files["good"])
    ttrace("compare", REFERENCE, TESTDATA / "tp2sp_p12", "--json", files["bad"])
    return files


def edited(file: Path, to: Path, edit: Callable[[Json], object]) -> Path:
    report = json.loads(file.read_text())
    edit(report)
    report["counts"]["total"] = len(report["results"])
    to.write_text(json.dumps(report))
    return to


def diff(ttrace: Run, older: Path, newer: Path, folder: Path, exit_code: int) -> Json:
    out = folder / "diff.json"
    done = ttrace("report", "diff", older, newer, "--json", out)
    assert done.returncode == exit_code, (done.stdout, done.stderr)
    answer = read_report(out)
    assert answer["exit_code"] == exit_code
    assert done.stdout.startswith(answer["verdict"].upper() + "  ")
    for name, count in answer["counts"].items():
        if name in answer:
            assert count == len(answer[name])
    return answer


def result(report: Json, wanted: str) -> Json:
    (found,) = [one for one in report["results"] if one["id"] == wanted]
    return found


def ids(answer: Json, change: str) -> list[str]:
    return [one["id"] for one in answer[change]]


def test_a_bug_is_new_and_then_healed(ttrace: Run, nights: dict[str, Path], tmp_path: Path) -> None:
    news = diff(ttrace, nights["good"], nights["bad"], tmp_path, DIVERGED)
    wrong = {
        one["id"]
        for one in json.loads(nights["bad"].read_text())["results"]
        if one["outcome"] in ("diverged", "replica_conflict")
    }
    assert set(ids(news, "newly_diverged")) == wrong and FOLLOWING in wrong
    assert [(one["status"], one["members"]) for one in news["findings"]] == [("new", 10)]
    back = diff(ttrace, nights["bad"], nights["good"], tmp_path, MATCH)
    assert set(ids(back, "healed")) == wrong and not back["newly_diverged"]
    assert [one["status"] for one in back["findings"]] == ["healed"]
    again = diff(ttrace, nights["bad"], nights["bad"], tmp_path, MATCH)
    assert again["counts"]["diverged_in_both"] == len(wrong)
    assert [one["status"] for one in again["findings"]] == ["same"]


def test_what_vanished_or_is_not_checked_has_not_healed(
    ttrace: Run, nights: dict[str, Path], tmp_path: Path
) -> None:
    def drop(report: Json) -> None:
        report["results"] = [one for one in report["results"] if one["id"] != FIRST]

    def unread(report: Json) -> None:
        result(report, FIRST)["outcome"] = "unreadable"

    for edit, change in ((drop, "vanished"), (unread, "no_longer_checked")):
        newer = edited(nights["good"], tmp_path / "new.json", edit)
        answer = diff(ttrace, nights["bad"], newer, tmp_path, INCONCLUSIVE)
        assert ids(answer, change) == [FIRST]
        assert FIRST not in ids(answer, "healed")
        assert [one["status"] for one in answer["findings"]] == ["gone"]
        assert "1 tensor that had diverged was not checked" in answer["why"]
        # Nobody minds what had been right.
        diff(ttrace, nights["good"], newer, tmp_path, MATCH)


@pytest.mark.parametrize(
    ("before", "now", "change"),
    [
        (0.20, 0.26, "worse"),
        (0.20, 0.24, None),  # a fifth
        (0.10, 0.14, None),  # not by 0.05
        (0.26, 0.20, "better"),
        (0.50, "inf", "worse"),
        ("inf", "inf", None),
    ],
)
def test_used_moves(
    ttrace: Run, nights: dict[str, Path], tmp_path: Path, before: Any, now: Any, change: str | None
) -> None:
    older, newer = (
        edited(
            nights["good"],
            tmp_path / name,
            lambda report, used=used: result(report, RIGHT).update(used=used),
        )
        for name, used in (("old.json", before), ("new.json", now))
    )
    answer = diff(ttrace, older, newer, tmp_path, MATCH)
    for one in ("worse", "better"):
        assert ids(answer, one) == ([RIGHT] if one == change else [])


def test_what_else_changed(ttrace: Run, nights: dict[str, Path], tmp_path: Path) -> None:
    def edit(report: Json) -> None:
        report["identity"]["candidate"].update(commit="abc", framework="torch 2.14.0")
        report["selection"]["kind"] = ["main_grad"]

    answer = diff(
        ttrace, nights["good"], edited(nights["good"], tmp_path / "n.json", edit), tmp_path, MATCH
    )
    changed = {one["what"]: (one["was"], one["is"]) for one in answer["changed"]}
    assert changed["commit of the candidate"] == ("", "abc")
    assert changed["framework of the candidate"] == ("gallery", "torch 2.14.0")
    assert set(changed) == {"commit of the candidate", "framework of the candidate", "selection"}


def test_findings_alone(ttrace: Run, nights: dict[str, Path], tmp_path: Path) -> None:
    part = tmp_path / "part.json"
    run = TESTDATA / "tp2sp_p12"
    ttrace("compare", REFERENCE, run, "--json", part, "--json-detail", "findings")
    answer = diff(ttrace, nights["bad"], part, tmp_path, MATCH)
    assert FOLLOWING in ids(answer, "untold") and not answer["healed"] and not answer["vanished"]
    assert "has the tensors of findings alone" in answer["remarks"][0]
    answer = diff(ttrace, part, nights["bad"], tmp_path, MATCH)
    assert FOLLOWING in ids(answer, "untold") and not answer["newly_diverged"]
    # A finding that the older report does not list is a new one.
    none = tmp_path / "none.json"
    ttrace("compare", REFERENCE, TESTDATA / "tp2sp", "--json", none, "--json-detail", "findings")
    answer = diff(ttrace, none, nights["bad"], tmp_path, DIVERGED)
    assert len(answer["newly_diverged"]) == 10


def test_reports_of_other_runs(ttrace: Run, nights: dict[str, Path], tmp_path: Path) -> None:
    def rename(report: Json) -> None:
        for one in report["results"]:
            one["id"] = one["id"].replace("layers", "blocks").replace("0/", "7/", 1)

    other = edited(nights["good"], tmp_path / "other.json", rename)
    answer = diff(ttrace, nights["good"], other, tmp_path, INCONCLUSIVE)
    assert "no tensor in common" in answer["why"]

    def inconclusive(report: Json) -> None:
        report.update(verdict="inconclusive", headline="nothing was compared")

    weak = edited(nights["good"], tmp_path / "weak.json", inconclusive)
    assert (
        "nothing was compared" in diff(ttrace, nights["good"], weak, tmp_path, INCONCLUSIVE)["why"]
    )
    assert diff(ttrace, weak, nights["good"], tmp_path, MATCH)["remarks"]


def test_what_cannot_be_read_is_refused(
    ttrace: Run, nights: dict[str, Path], tmp_path: Path
) -> None:
    good, broken = nights["good"], tmp_path / "broken.json"
    broken.write_bytes(good.read_bytes()[:5000])
    check_refused(ttrace("report", "diff", good, broken), broken, "not valid JSON")
    first = edited(good, tmp_path / "v1.json", lambda r: r.update(schema="ttrace.report/1"))
    check_refused(ttrace("report", "diff", first, good), first, "ttrace.report/1")
    audit = tmp_path / "audit.json"
    ttrace("audit", TESTDATA / "tp2sp", "--json", audit)
    check_refused(ttrace("report", "diff", good, audit), audit, "`ttrace audit`")
    twice = edited(
        good, tmp_path / "twice.json", lambda r: r["results"].append(copy.copy(r["results"][0]))
    )
    check_refused(ttrace("report", "diff", good, twice), twice, "twice")
    cut = tmp_path / "cut.json"
    report = json.loads(good.read_text())
    cut.write_text(json.dumps({**report, "results": report["results"][:3]}))
    check_refused(ttrace("report", "diff", good, cut), cut, "/counts/total", "results, 3")
    check_refused(ttrace("report", "diff", good, good, "--json", good), "name the same file")


def test_pipelines_read_what_is_new(ttrace: Run, nights: dict[str, Path], tmp_path: Path) -> None:
    def cases(older: str, newer: str, exit_code: int) -> tuple[dict[str, str], str]:
        files = tmp_path / "diff.xml", tmp_path / "diff.md"
        flags = ("--junit", files[0], "--markdown", files[1])
        done = ttrace("report", "diff", nights[older], nights[newer], *flags)
        assert done.returncode == exit_code, done.stderr
        return results_of(suite_of(files[0].read_text())), files[1].read_text()

    found, page = cases("good", "bad", DIVERGED)
    assert found["ttrace.diff", "verdict"] == "failure"
    assert list(found.values()).count("failure") == 2 and len(found) == 2
    assert page.startswith("### ttrace diff&#58; NEW\n\n**21 tensors newly diverged")
    assert "| 1 | the gradients of 10 of 28 parameters" in page
    assert "new, 10 tensors" in page and "21 newly diverged" in page
    for older in ("bad", "good"):
        found, page = cases(older, older, MATCH)
        assert set(found.values()) <= {"", "skipped"} and found["ttrace.diff", "verdict"] == ""
        assert page.startswith("### ttrace diff&#58; NOTHING NEW")
    found, page = cases("bad", "good", MATCH)
    assert "failure" not in found.values() and "healed, 10 tensors" in page
    # The file itself can be shown, and is no night.
    kept = tmp_path / "kept.json"
    ttrace("report", "diff", nights["good"], nights["bad"], "--json", kept)
    assert ttrace("report", "show", kept, "--format", "line").stdout.startswith("NEW  21 tensors")
    check_refused(ttrace("report", "diff", kept, kept), kept, 'this is "ttrace.diff/1"')


def test_pipelines_read_the_trend(ttrace: Run, nights: dict[str, Path], tmp_path: Path) -> None:
    files = tmp_path / "trend.json", tmp_path / "trend.xml", tmp_path / "trend.md"
    flags = ("--json", files[0], "--junit", files[1], "--markdown", files[2])
    done = ttrace("report", "trend", nights["good"], nights["bad"], *flags)
    assert done.returncode == MATCH, done.stderr
    answer = read_report(files[0])
    assert done.stdout.splitlines()[0] == "TREND  " + answer["headline"]
    (first,) = [one for one in answer["tensors"] if one["id"] == FIRST]
    both = [result(json.loads(nights[name].read_text()), FIRST)["used"] for name in ("good", "bad")]
    assert first["used"] == both and first["worst"] == max(both)
    assert [one["verdict"] for one in answer["nights"]] == ["match", "diverged"]
    found = results_of(suite_of(files[1].read_text()))
    assert found["ttrace.trend", "verdict"] == ""
    assert found["ttrace.trend.step_0", "main_grad"] == "failure"
    assert found["ttrace.trend.step_0", "output"] == ""
    page = files[2].read_text()
    assert page.startswith("### ttrace trend&#58; TREND\n\n**2 nights, the worst 10 of ")
    assert "| # | tensor, night by night |" in page and "step 0" in page


def test_the_trend_of_nights(ttrace: Run, nights: dict[str, Path], tmp_path: Path) -> None:
    files = []
    for i, used in enumerate((0.01, 0.1, 0.99)):

        def edit(report: Json, used: float = used, i: int = i) -> None:
            result(report, RIGHT)["used"] = used
            report["identity"]["candidate"]["framework"] = f"torch 2.{13 + i // 2}"

        files.append(edited(nights["good"], tmp_path / f"night{i}.json", edit))
    done = ttrace("report", "trend", *files)
    assert done.returncode == MATCH and done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0].startswith("TREND  3 nights, the worst 10 of ")
    assert f"the worst used 0.99 ({RIGHT})" in lines[0]
    assert lines[1].split() == ["▁▃▄", "0.01", "0.1", "0.99", RIGHT]
    assert sum(" → " in line for line in lines) == 1
    assert "framework of the candidate: torch 2.13 → torch 2.14" in done.stdout
    # A night that lacks a tensor has a gap, and what is not finite is the worst.
    done = ttrace("report", "trend", nights["good"], nights["bad"], "--all")
    assert len(done.stdout.splitlines()) > 200
    audit = tmp_path / "audit.json"
    ttrace("audit", TESTDATA / "tp2sp", "--json", audit)
    check_refused(ttrace("report", "trend", nights["good"], audit), audit, "`ttrace audit`")
