"""Reports from files: what a file may hold, and what is said of one that cannot be read."""

from __future__ import annotations

import gzip
import json
import os
import pickle

import pytest

from ttrace_torch import report


@pytest.fixture
def document(diverged):
    return json.loads(gzip.decompress(diverged.data))


@pytest.fixture
def loaded(tmp_path):
    """Writes a document, and reads it as a report."""

    def load(document):
        path = tmp_path / "made.json"
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return report.load(path)

    return load


def test_compressed_and_plain_say_the_same(loaded, document, diverged):
    assert loaded(document) == diverged


def test_members_that_nobody_knows_are_passed_over(loaded, document, diverged):
    document["weather"] = {"schema": 3}
    document["results"][0]["colour"] = "blue"
    document["findings"][0]["causes"][0]["moon"] = [None]
    found = loaded(document)
    assert found == diverged
    assert found.results[0].json["colour"] == "blue"


def test_numbers_that_are_not_finite(loaded, document):
    document["results"][0] |= {"used": "inf", "error": "nan", "scale": None}
    one = loaded(document).results[0]
    assert one.used == float("inf") and one.error != one.error and one.scale is None


@pytest.mark.parametrize("version", ["ttrace.answer/2", "ttrace.report/2", "ttrace.audit/1"])
def test_another_version_is_named(loaded, document, version):
    document["schema"] = version
    with pytest.raises(report.ReportError, match=f"made.json: its schema is '{version}', and"):
        loaded(document)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "not valid JSON"),
        ("[]", "it has no schema"),
        ("{}", "it has no schema"),
        ('{"schema": ["ttrace.answer/1"]}', "it has no schema"),
        ('{"schema": "ttrace.answer/1"}', "/command: None is none of compare, audit, localize"),
        ("[" * 100_000, "not valid JSON"),
        ('{"schema": "ttrace.answer/1", "exit_code": NaN}', "NaN is no number of JSON"),
        ("\udcff", "not valid JSON"),
    ],
)
def test_what_is_no_report_is_one_sentence(tmp_path, text, sentence):
    path = tmp_path / "x.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(report.ReportError, match=sentence) as refused:
        report.load(path)
    assert str(refused.value).startswith(f"{path}: ") and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        (("results",), 3, "/results: 3 is not a list"),
        (("results", 7), "x", "/results/7: 'x' is not an object"),
        (("results", 7, "used"), "much", "/results/7/used: 'much' is not a number"),
        (("results", 7, "used"), 10**400, "/results/7/used: .* is not a number"),
        (("results", 7, "used"), True, "/results/7/used: True is not a number"),
        (("results", 7, "key", "step"), 0.5, "/results/7/key/step: 0.5 is not a whole number"),
        (("results", 7, "shape"), ["2"], "/results/7/shape/0: '2' is not a whole number"),
        (
            ("findings", 0, "causes", 0, "name"),
            None,
            "/findings/0/causes/0/name: None is not a text",
        ),
        (("reference", "mesh"), [{"name": "tp"}], "/reference/mesh/0/size"),
        (("counts", "match"), "all", "/counts/match: 'all' is not a whole number"),
        (("findings", 0, "source"), 1, None),
    ],
)
def test_a_member_of_another_type_is_named(loaded, document, path, value, sentence):
    at = document
    for part in path[:-1]:
        at = at[part]
    at[path[-1]] = value
    if sentence is None:
        assert loaded(document).frontier[0].class_name == ""
        return
    with pytest.raises(report.ReportError, match=sentence):
        loaded(document)


@pytest.mark.parametrize("keep", [2, 20, 0.5, -2])
def test_a_file_that_was_cut_off(tmp_path, diverged, keep):
    for data in (diverged.data, gzip.decompress(diverged.data)):
        end = int(len(data) * keep) if isinstance(keep, float) else keep
        path = tmp_path / "cut.json"
        path.write_bytes(data[:end])
        with pytest.raises(report.ReportError, match="cut off or damaged"):
            report.load(path)


def test_files_that_cannot_be_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name, sentence in (("", "is no file"), ("pipe", "is no file"), ("gone", "No such file")):
        with pytest.raises(report.ReportError, match=sentence):
            report.load(tmp_path / name)
    with pytest.raises(report.ReportError, match="null byte"):
        report.load("a\0b")
    with pytest.raises(report.ReportError, match="cannot be read: Input/output error"):
        report.load("/proc/self/mem")  # also to root, who may read everything


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(tmp_path):
    path = tmp_path / "secret.json"
    path.write_text("{}")
    path.chmod(0)
    with pytest.raises(report.ReportError, match="cannot be read: Permission denied"):
        report.load(path)


def test_a_report_can_be_sent_to_another_process(diverged):
    assert pickle.loads(pickle.dumps(diverged)) == diverged


def test_settings_and_missing_tensors_are_findings(loaded, document):
    setting = {
        "id": "setting:0/lr/fc.weight",
        "headline": "another learning rate",
        "phase": "optimizer",
        "setting": {"step": 0, "name": "lr", "reference": "0.1", "candidate": "0.2"},
        "parameters": ["fc.weight"],
        "parameters_total": 1,
        "outcome": "setting",
        "members": ["0/-/param_after_step/fc.weight/0/0"],
    }
    document["findings"].append(setting)
    found = loaded(document).findings
    assert len(found) == 2
    assert found[1].setting["candidate"] == "0.2" and found[1].cause is None
    assert found[1].keys == ("0/-/param_after_step/fc.weight/0/0",)
