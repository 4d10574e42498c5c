"""--known FILE: what is known is excused as far as its bound, until its last day, not further."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.reports import read_report, validator
from support.ttrace_cli import DIVERGED, INCONCLUSIVE, MATCH, TESTDATA

from .conftest import Run
from .small_traces import check_refused

Json = dict[str, Any]
REFERENCE = TESTDATA / "ref.h5"
HEALTHY = TESTDATA / "tp2sp"
FAULTY = TESTDATA / "tp2sp_p12"  # main_grad of 10 norms is never summed over tp
SPECIFICATION = ["--specification", TESTDATA / "specification.json"]
NORMS = "*/main_grad/*norm*"
CAUSE = {"cause": "missing_reduction", "axis": "tp"}


def entry(bound: Json | None = None, pattern: str = NORMS, **others: str) -> Json:
    key = {} if "id" in others else {"pattern": pattern}
    given = {"owner": "the tp team", "reason": "a release away", "expires": "2999-12-31"}
    return {**key, **given, **others, "bound": CAUSE if bound is None else bound}


def listed(folder: Path, *entries: Json) -> Path:
    file = folder / "known.json"
    content = {"schema": "ttrace.known/1", "known": list(entries)}
    validator("ttrace.known/1").validate(content)
    file.write_text(json.dumps(content))
    return file


def judged(ttrace: Run, folder: Path, exit_code: int, *entries: Json, run: Path = FAULTY) -> Json:
    out = folder / "report.json"
    done = ttrace("compare", REFERENCE, run, "--known", listed(folder, *entries), "--json", out)
    assert done.returncode == exit_code, (done.stdout, done.stderr)
    report = read_report(out)
    assert report["exit_code"] == exit_code
    known = report["but_for_known"]
    word = report["verdict"].upper() + (f" but for {known} known" if known else "")
    assert done.stdout.startswith(f"{word}  {report['headline']}\n")
    return report


def states(report: Json) -> list[str]:
    return [one["state"] for one in report["known"]]


def test_a_match_but_for_known(ttrace: Run, tmp_path: Path) -> None:
    report = judged(ttrace, tmp_path, MATCH, entry())
    assert (report["verdict"], report["but_for_known"], states(report)) == ("match", 1, ["matched"])
    wrong = [one for one in report["results"] if one["outcome"] not in ("match",)]
    assert len(wrong) == 21 and all(one["known"] for one in wrong)
    assert [one["known"] for one in report["findings"]] == [0] * 10
    for name in ("junit", "markdown", "text", "line"):
        shown = ttrace("report", "show", tmp_path / "report.json", "--format", name)
        assert shown.returncode == MATCH
        if name == "junit":
            assert 'failures="0" errors="0"' in shown.stdout
        else:
            assert "but for 1 known" in shown.stdout


@pytest.mark.parametrize(
    ("bound", "why"),
    [
        ({"cause": "scaled"}, "the cause is missing_reduction, not scaled"),
        ({"cause": "missing_reduction", "axis": "dp"}, "it is over tp, not dp"),
        ({"cause": "missing_reduction", "ranks": [0]}, "rank 1 is among its ranks"),
        ({"used": 1000}, "of what is allowed, more than 1000"),
    ],
)
def test_beyond_its_bound_it_counts(ttrace: Run, tmp_path: Path, bound: Json, why: str) -> None:
    report = judged(ttrace, tmp_path, DIVERGED, entry(bound))
    assert states(report) == ["beyond"] and why in report["known"][0]["why"]
    assert not any("known" in one for one in report["results"] + report["findings"])


def test_within_all_of_its_bound(ttrace: Run, tmp_path: Path) -> None:
    judged(ttrace, tmp_path, MATCH, entry({**CAUSE, "ranks": [0, 1]}))
    judged(ttrace, tmp_path, MATCH, entry({"used": 1e12}))


def test_half_a_finding_is_a_finding(ttrace: Run, tmp_path: Path) -> None:
    report = judged(ttrace, tmp_path, DIVERGED, entry(pattern="*/main_grad/layers.*"))
    assert states(report) == ["matched"] and report["but_for_known"] == 0
    # The tensor by which a finding is shown stands for itself alone, a group for all of its own.
    first = "0/-/main_grad/layers.0.norm1.weight/0/0"
    judged(ttrace, tmp_path, DIVERGED, entry(id=first))
    judged(ttrace, tmp_path, MATCH, entry(id="group:0/synchronisation/main_grad/LayerNorm"))


def test_an_expired_entry_fails(ttrace: Run, tmp_path: Path) -> None:
    report = judged(ttrace, tmp_path, DIVERGED, entry(expires="2026-01-31"))
    assert report["verdict"] == "diverged" and states(report) == ["expired"]
    assert "expired on 2026-01-31" in report["headline"]
    # Also where it would match nothing.
    report = judged(ttrace, tmp_path, DIVERGED, entry(expires="2026-01-31"), run=HEALTHY)
    assert report["verdict"] == "match" and not report["findings"]
    junit = ttrace("report", "show", tmp_path / "report.json", "--format", "junit").stdout
    assert 'failures="1"' in junit
    diff = ttrace("report", "diff", tmp_path / "report.json", tmp_path / "report.json")
    assert diff.returncode == DIVERGED and "1 known difference expired" in diff.stdout


def test_one_that_matches_nothing_is_listed(ttrace: Run, tmp_path: Path) -> None:
    report = judged(ttrace, tmp_path, MATCH, entry(), run=HEALTHY)
    assert states(report) == ["unmatched"] and report["but_for_known"] == 0
    file = tmp_path / "known.json"
    text = ttrace("compare", REFERENCE, HEALTHY, "--known", file).stdout
    assert f"matched nothing: take it out of {file}" in text


def test_nothing_checked_is_no_match(ttrace: Run, tmp_path: Path) -> None:
    """All that is wrong is known, and nothing else was selected: that is no match."""
    file = listed(tmp_path, entry())
    only = ["--kind", "main_grad", "--only", "*norm*"]
    done = ttrace("compare", REFERENCE, FAULTY, *only, "--known", file)
    assert done.returncode == INCONCLUSIVE, done.stdout
    assert "nothing else is wrong, but nothing was really checked" in done.stdout


def test_audit_and_localize(ttrace: Run, tmp_path: Path) -> None:
    file = listed(tmp_path, entry())
    for command, word in (
        (["audit", FAULTY], "HOLDS but for 1 known"),
        (["localize", REFERENCE, FAULTY], "NOTHING TO EXPLAIN but for 1 known"),
    ):
        out = tmp_path / "answer.json"
        done = ttrace(*command, *SPECIFICATION, "--known", file, "--json", out)
        assert done.returncode == MATCH, (done.stdout, done.stderr)
        assert done.stdout.startswith(word)
        assert read_report(out)["but_for_known"] == 1
        assert ttrace(*command, *SPECIFICATION).returncode == DIVERGED


def test_localize_requires_kinds_of_the_comparison(ttrace: Run, tmp_path: Path) -> None:
    out = tmp_path / "answer.json"
    pair = ["localize", REFERENCE, HEALTHY, "--json", out]
    assert ttrace(*pair, "--require", "loss,main_grad").returncode == MATCH
    report = read_report(out)
    kinds = {one["kind"]: one for one in report["comparison"]["kinds"]}
    assert [(one["kind"], one["tensors"], one["checked"]) for one in report["required"]] == [
        (kind, kinds[kind]["tensors"], kinds[kind]["checked"]) for kind in ("loss", "main_grad")
    ]
    assert kinds["loss"]["checked"] == kinds["loss"]["tensors"] > 0
    for flags, why in (
        (["--require", "buffer"], "buffer was required, and there is none"),
        (["--require", "output", "--skip", "*mlp*"], "output was required, and 21 of 27"),
    ):
        done = ttrace(*pair, *flags)
        assert done.returncode == INCONCLUSIVE, done.stdout
        assert done.stdout.startswith(f"INCONCLUSIVE  nothing is wrong, but {why}")
        assert read_report(out)["exit_code"] == INCONCLUSIVE
    # What is wrong stays wrong, and a comparison that was kept says the same.
    assert ttrace("localize", REFERENCE, FAULTY, "--require", "buffer").returncode == DIVERGED
    kept = tmp_path / "compare.json"
    ttrace("compare", REFERENCE, HEALTHY, "--json", kept)
    again = [*pair, "--report", kept]
    assert ttrace(*again, "--require", "loss").returncode == MATCH
    assert ttrace(*again, "--require", "buffer").returncode == INCONCLUSIVE


def test_two_nights(ttrace: Run, tmp_path: Path) -> None:
    judged(ttrace, tmp_path, MATCH, entry())
    known = (tmp_path / "report.json").rename(tmp_path / "known_night.json")
    plain = tmp_path / "plain.json"
    ttrace("compare", REFERENCE, FAULTY, "--json", plain)
    healthy = tmp_path / "healthy.json"
    ttrace("compare", REFERENCE, HEALTHY, "--json", healthy)
    for older, newer, code in (
        (healthy, known, MATCH),
        (plain, known, MATCH),
        (known, known, MATCH),
        (known, plain, DIVERGED),  # nobody excuses it any more
    ):
        done = ttrace("report", "diff", older, newer)
        assert done.returncode == code, done.stdout


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"bound": {}}, 'has neither "cause" nor "used"'),
        ({"bound": {"axis": "tp"}}, "/known/0/bound"),
        ({"bound": {"used": 0}}, "is not above 0"),
        ({"expires": "tomorrow"}, "is no day such as"),
        ({"expires": "2026-13-01"}, "is no day such as"),
        ({"owner": ""}, "/known/0/owner: is empty"),
        ({"id": "0/-/loss/loss/0/0"}, 'either an "id" or a "pattern"'),
        ({"until": "2026-12-31"}, "until"),
    ],
)
def test_a_file_that_is_wrong_is_refused(
    ttrace: Run, tmp_path: Path, change: Json, why: str
) -> None:
    file = tmp_path / "known.json"
    file.write_text(json.dumps({"schema": "ttrace.known/1", "known": [{**entry(), **change}]}))
    check_refused(ttrace("compare", REFERENCE, FAULTY, "--known", file), file, why)
