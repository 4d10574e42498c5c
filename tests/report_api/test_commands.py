"""`compare`, `audit` and `localize` from Python: the report, or the command's sentence."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from support.ttrace_cli import run_ttrace

from ttrace_torch import report

from .conftest import BROKEN, HEALTHY, NOISE, REFERENCE, SPECIFICATION

NEVER_SUMMED = "the gradients of 10 of 28 parameters"


def test_a_healthy_run_matches(healthy):
    assert (healthy.verdict, healthy.exit_code) == ("match", 0)
    assert healthy.findings == ()
    assert healthy.counts["match"] == healthy.counts["total"] == len(healthy.results) == 202


@pytest.mark.parametrize("fixture", ["diverged", "audited", "localized"])
def test_a_bug_is_one_finding_with_its_cause(fixture, request):
    found = request.getfixturevalue(fixture)
    assert found.exit_code == 1
    (finding,) = found.findings
    assert finding.headline.startswith(NEVER_SUMMED)
    assert finding.headline in found.headline
    assert (finding.cause.name, finding.cause.axis) == ("missing_reduction", "tp")
    assert len(finding.keys) == 10
    assert (finding.place.kind, finding.place.of) == ("synchronisation", "tp")
    assert finding.phase == "synchronisation"


def test_what_the_commands_alone_say(diverged, audited, localized):
    assert diverged.findings[0].class_name == "LayerNorm"
    assert diverged.findings[0].called_at.startswith("model.py:")
    values = diverged.findings[0].cause.values
    assert (values["reduced"], values["reduction"]) == ("summed", "sum")
    assert 0 < values["left"] < 1
    assert diverged.findings[0].downstream == localized.findings[0].downstream == 11
    assert all(
        diverged.by_id[key].outcome == "replica_conflict" for key in diverged.frontier[0].keys
    )
    assert diverged.candidate.mesh == {"pp": 1, "dp": 1, "cp": 1, "tp": 2}
    assert [
        check.operation for check in audited.findings[0].checks if check.result == "inconsistent"
    ]
    assert localized.findings[0].here and localized.findings[0].next.startswith("ttrace inspect")
    assert {layer.module for layer in localized.layers} > {"final_norm", "layers.0.attn.qkv"}


def test_numbers_are_those_of_the_command(diverged, folder):
    done = run_ttrace(
        "compare", REFERENCE, BROKEN, "--noise", *NOISE, "--json", folder / "cli.json"
    )
    assert done.returncode == diverged.exit_code
    assert report.load(folder / "cli.json").results == diverged.results


def test_flags_are_those_of_the_command(tmp_path):
    page = tmp_path / "page.html"
    found = report.compare(
        str(REFERENCE), str(HEALTHY), only=["layers.0.*", "layers.1.*"], kind="output", html=page
    )
    assert {one.layer for one in found.results if one.outcome == "match"} == {0, 1}
    assert {one.key.kind for one in found.results if one.outcome == "match"} == {"output"}
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert found.json["selection"]["only"] == ["layers.0.*", "layers.1.*"]


def test_too_little_that_was_checked_is_a_verdict():
    found = report.compare(REFERENCE, REFERENCE)
    assert (found.verdict, found.exit_code) == ("inconclusive", 3)
    assert found.why
    assert report.audit(HEALTHY, exact=False).exit_code == 3  # without a specification


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: report.compare("nowhere.h5", HEALTHY), "nowhere.h5"),
        (lambda: report.audit(HEALTHY, specification=REFERENCE), "not valid JSON"),
        (lambda: report.compare(REFERENCE, HEALTHY, noize=3), 'did you mean "--noise"?'),
        (lambda: report.compare(REFERENCE, HEALTHY, step="--json"), "--step"),
        (lambda: report.compare("--version", HEALTHY), "--version"),
        (lambda: report.localize(REFERENCE, HEALTHY, report="gone.json"), "gone.json"),
        (
            lambda: report.compare(REFERENCE, HEALTHY, json="/nowhere/at/all.json"),
            "/nowhere/at/all",
        ),
    ],
)
def test_what_cannot_be_answered_throws_the_sentence_of_the_command(call, sentence):
    with pytest.raises(report.CommandFailed) as failed:
        call()
    assert failed.value.exit_code == 2
    assert sentence in str(failed.value) and "\n" not in str(failed.value)


def test_paths_may_begin_with_a_dash(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "--run").symlink_to(HEALTHY)
    (tmp_path / "-ref.h5").symlink_to(REFERENCE)
    assert report.compare("-ref.h5", "--run", json="-x.json").verdict == "match"
    assert str(report.load("-x.json")).startswith("MATCH")


def test_standard_output_is_no_file_for_a_report():
    with pytest.raises(report.CommandFailed, match="read from a file"):
        report.compare(REFERENCE, HEALTHY, json="-")


def test_what_prints_no_report_is_told():
    with pytest.raises(report.CommandFailed, match="wrote no report"):
        report.audit(HEALTHY, help=True)


@pytest.fixture
def without_program(monkeypatch, tmp_path):
    monkeypatch.delenv("TTRACE")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))


def test_without_the_program_it_says_where_it_looks(without_program):
    with pytest.raises(report.CommandFailed, match="put it on PATH, or set TTRACE") as failed:
        report.audit(HEALTHY)
    assert failed.value.exit_code is None


def test_without_the_program_a_report_still_shows_its_first_line(without_program, diverged):
    text = str(diverged)
    assert text.startswith(f"DIVERGED  {NEVER_SUMMED}")
    assert "set TTRACE" in text
    assert diverged._repr_html_().startswith("<pre>DIVERGED")


def test_a_program_that_does_not_start_is_named(monkeypatch):
    monkeypatch.setenv("TTRACE", str(SPECIFICATION))
    with pytest.raises(report.CommandFailed, match="specification.json compare: .*Permission"):
        report.compare(REFERENCE, HEALTHY)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("kill -9 $$", "signal 9"),
        ("exit 7", "code 7"),
        ("exit 0", "wrote no report"),
        (
            'cp "$REPORT" "${2#--json=}"',
            "ended with 0, and report.json.gz is the answer of compare with 1",
        ),
    ],
)
def test_a_program_that_breaks_its_word_is_no_match(
    monkeypatch, tmp_path, folder, diverged, body, sentence
):
    program = tmp_path / "ttrace"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    monkeypatch.setenv("TTRACE", str(program))
    monkeypatch.setenv("REPORT", str(folder / "diverged.json.gz"))
    with pytest.raises(report.CommandFailed, match=sentence):
        report.compare(REFERENCE, HEALTHY)


def test_the_text_is_that_of_report_show(diverged, folder):
    shown = run_ttrace("report", "show", folder / "diverged.json.gz")
    assert str(diverged) == shown.stdout.rstrip("\n")
    assert diverged.show("line") == shown.stdout.splitlines()[0] + "\n"
    with pytest.raises(report.CommandFailed, match="--format"):
        diverged.show("poem")


def test_an_interrupted_notebook_leaves_no_program_behind(tmp_path):
    program = tmp_path / "ttrace"
    program.write_text(f"#!/bin/sh\necho $$ >{tmp_path}/pid\nexec sleep 60\n")
    program.chmod(0o755)
    code = f"from ttrace_torch import report; report.audit({str(HEALTHY)!r})"
    environment = {**os.environ, "TTRACE": str(program)}
    job = subprocess.Popen([sys.executable, "-c", code], env=environment, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 30
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    job.send_signal(signal.SIGINT)
    assert b"KeyboardInterrupt" in job.communicate(timeout=30)[1]
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
