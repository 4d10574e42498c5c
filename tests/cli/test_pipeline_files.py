"""What pipelines read: JUnit XML and Markdown of an answer, as files, in a job's summary, and of
JSON that was kept."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree

import pytest
from support.ttrace_cli import TESTDATA, run_ttrace

from cli.small_traces import check_refused, write_pair

REFERENCE = TESTDATA / "ref.h5"
NOISE = [argument for n in (1, 2, 3) for argument in ("--noise", TESTDATA / f"noise{n}.h5")]
HOSTILE = '</testcase><script>x</script> | `a` *b* [c](d) @team #1 https://x & "q" \x1b[2J \u202e'

# What Jenkins' xunit plugin allows (junit-10.xsd): attributes and children of each element.
ATTRIBUTES = {
    "testsuites": {"name", "time", "tests", "failures", "errors"},
    "testsuite": {"name", "tests", "failures", "errors", "skipped", "time", "timestamp", "id"},
    "testcase": {"name", "classname", "time", "group"},
    **dict.fromkeys(("failure", "error", "skipped"), {"message", "type"}),
}
CHILDREN = {
    "testsuites": {"testsuite"},
    "testsuite": {"testcase"},
    "testcase": {"failure", "error", "skipped"},
    **dict.fromkeys(("failure", "error", "skipped"), set()),
}
REQUIRED = {"testsuite": {"name", "tests", "failures", "errors"}, "testcase": {"name"}}


def checked(element):
    assert set(element.attrib) <= ATTRIBUTES[element.tag], element.attrib
    assert REQUIRED.get(element.tag, set()) <= set(element.attrib)
    assert {child.tag for child in element} <= CHILDREN[element.tag]
    for child in element:
        checked(child)


def suite_of(text):
    """The suite of a file, which is as Jenkins wants it and counts what it has."""
    root = ElementTree.fromstring(text)
    assert root.tag == "testsuites"
    checked(root)
    (suite,) = root
    for attribute, inside in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(suite.get(attribute)) == len(suite.findall(f"testcase/{inside}"))
    assert int(suite.get("tests")) == len(suite) > 0
    return suite


def results_of(suite):
    """Case -> what is inside: "failure", "error", "skipped", or "" where it passed."""
    return {
        (case.get("classname"), case.get("name")): case[0].tag if len(case) else ""
        for case in suite
    }


def answered(folder, *arguments):
    """The exit code, the JUnit suite and the Markdown of an answer."""
    files = folder / "answer.xml", folder / "answer.md"
    done = run_ttrace(*arguments, "--junit", files[0], "--markdown", files[1])
    assert files[0].exists(), done.stderr
    return done, suite_of(files[0].read_text()), files[1].read_text()


def test_a_match_is_green(tmp_path):
    done, suite, page = answered(tmp_path, "compare", REFERENCE, TESTDATA / "tp2sp", *NOISE)
    assert done.returncode == 0
    results = results_of(suite)
    assert results["ttrace.compare", "verdict"] == ""
    assert results["ttrace.compare.step_0", "layers.0.norm1"] == ""
    assert set(results.values()) <= {"", "skipped"}
    assert page.startswith("### ttrace compare&#58; MATCH\n\n**")


def test_a_divergence_fails_in_its_modules(tmp_path):
    pair = (REFERENCE, TESTDATA / "tp2sp_p12")
    done, suite, page = answered(tmp_path, "compare", *pair, *NOISE)
    assert done.returncode == 1
    results = results_of(suite)
    assert results["ttrace.compare", "verdict"] == "failure"
    assert results["ttrace.compare.step_0", "final_norm"] == "failure"
    assert results["ttrace.compare.step_0", "layers.0.attn.proj"] == ""
    headline = json.loads((_json(tmp_path, "compare", *pair, *NOISE)).read_text())["headline"]
    verdict = next(case for case in suite if case.get("name") == "verdict")
    assert verdict[0].get("message") == headline
    failed = next(case for case in suite if case.get("name") == "final_norm")
    assert failed[0].get("type") == "replica_conflict"
    assert "main_grad final_norm.bias: error " in failed[0].text
    assert page.count("\n") < 40
    (row,) = [line for line in page.splitlines() if line.startswith("| 1 |")]
    assert row.count("|") == 6
    assert "ttrace compare " in page


def _json(folder, *arguments):
    path = folder / "answer.json"
    run_ttrace(*arguments, "--json", path)
    return path


def test_what_was_not_checked_is_not_green(tmp_path):
    done, suite, page = answered(tmp_path, "compare", REFERENCE, REFERENCE)
    assert done.returncode == 3
    assert results_of(suite)["ttrace.compare", "verdict"] == "error"
    assert "INCONCLUSIVE" in page


def test_audit_and_localize_write_them_too(tmp_path):
    specification = ("--specification", TESTDATA / "specification.json")
    done, suite, page = answered(tmp_path, "audit", TESTDATA / "tp2sp_p12", *specification)
    assert done.returncode == 1
    results = results_of(suite)
    assert results["ttrace.audit", "verdict"] == "failure"
    assert "failure" in {r for (group, _), r in results.items() if group == "ttrace.audit.step_0"}
    assert page.startswith("### ttrace audit&#58; BROKEN")
    pair = (REFERENCE, TESTDATA / "tp2sp_p12")
    done, suite, page = answered(tmp_path, "localize", *pair, *NOISE)
    assert done.returncode == 1
    assert list(results_of(suite).values()).count("failure") >= 2
    assert page.startswith("### ttrace localize&#58; ")


def test_kept_json_gives_the_same_files(tmp_path):
    pair = (REFERENCE, TESTDATA / "tp2sp_p12")
    kept = tmp_path / "kept.json"
    asked = ("--json", kept, "--junit", tmp_path / "a.xml", "--markdown", tmp_path / "a.md")
    done = run_ttrace("compare", *pair, *NOISE, *asked)
    assert done.returncode == 1
    for name, file in (("junit", "a.xml"), ("markdown", "a.md")):
        shown = run_ttrace("report", "show", kept, "--format", name)
        assert shown.returncode == 0 and shown.stdout == (tmp_path / file).read_text()
    line = run_ttrace("report", "show", kept, "--format", "line").stdout
    assert line.startswith("DIVERGED  ") and line.count("\n") == 1
    assert run_ttrace("report", "show", kept, "--format", "json").stdout == kept.read_text()
    check_refused(run_ttrace("report", "show", REFERENCE, "--format", "junit"), REFERENCE)


def test_texts_of_a_report_are_no_markup(tmp_path):
    path = _json(tmp_path, "compare", REFERENCE, TESTDATA / "tp2sp_p12", *NOISE)
    report = json.loads(path.read_text())
    report["headline"] = HOSTILE
    for group in report["groups"]:
        group["headline"] = group["title"] = HOSTILE
    for result in report["results"]:
        result["key"]["name"] = "a`b|<i>"
    path.write_text(json.dumps(report))
    text = run_ttrace("report", "show", path, "--format", "junit").stdout
    suite = suite_of(text)
    assert "</testcase><script>" in suite[0][0].get("message")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202e]", text)
    page = run_ttrace("report", "show", path, "--format", "markdown").stdout
    # Markup of our own is all that there is: <code> of a command.
    assert set(re.findall(r"<[^>]*>", page)) == {"<code>", "</code>"}
    assert "@team" not in page and "https://" not in page and "[c](" not in page
    for row in page.splitlines():
        if row.startswith("| "):
            assert row.count("|") == 6, row


@pytest.fixture
def summary(tmp_path, monkeypatch):
    path = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
    return path


def test_a_summary_is_added_to(tmp_path, summary):
    pair = write_pair(tmp_path)
    summary.write_text("# Tests\n")
    for _ in range(2):
        run_ttrace("compare", *pair, "--markdown", "github")
    text = summary.read_text()
    assert text.startswith("# Tests\n### ttrace compare")
    assert text.count("### ttrace compare") == 2


def test_a_summary_that_cannot_be_written_is_told(tmp_path, summary, monkeypatch):
    pair = write_pair(tmp_path)
    summary.symlink_to(tmp_path / "elsewhere.md")
    check_refused(run_ttrace("compare", *pair, "--markdown", "github"), summary)
    assert not (tmp_path / "elsewhere.md").exists()
    summary.unlink()
    summary.mkdir()
    check_refused(run_ttrace("compare", *pair, "--markdown", "github"), summary)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY")
    done = run_ttrace("compare", *pair, "--markdown", "github")
    check_refused(done, "GITHUB_STEP_SUMMARY", "elsewhere give a file")


def test_files_of_one_answer_are_each_its_own(tmp_path):
    pair = write_pair(tmp_path)
    one = tmp_path / "one"
    check_refused(run_ttrace("compare", *pair, "--junit", one, "--markdown", one), "--junit", one)
    check_refused(run_ttrace("compare", *pair, "--junit", pair[0]), pair[0])
    done = run_ttrace("compare", *pair, "--junit", "-")
    suite_of(done.stdout)
    assert "MATCH" in done.stderr
