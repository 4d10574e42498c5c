"""The page inside a notebook: a frame that works, and that reaches nothing around it."""

from __future__ import annotations

import gzip
import json

import pytest
from support.ttrace_cli import ttrace_binary

from ttrace_torch import report

HOSTILE = (
    '"></iframe><script>document.title="reached"</script>'
    "<img src=x onerror=alert(1)>&quot;{{style}}"
)


@pytest.fixture
def notebook(browser, tmp_path, monkeypatch):
    """Opens a report as the output of a cell, and goes into its frame."""
    monkeypatch.setenv("TTRACE", str(ttrace_binary()))

    def show(path):
        cell = report.load(path)._repr_html_()
        assert cell.startswith("<iframe ") and cell.endswith("></iframe>")
        page = tmp_path / "notebook.html"
        title = "<!DOCTYPE html><meta charset=utf-8><title>notebook</title>"
        ready = "<script>document.documentElement.dataset.ready = 'yes'</script>"
        page.write_text(f"{title}<body>{cell}<p id=after>after</p>{ready}")
        browser.open(page)
        outside = browser.evaluate(
            "[document.title, document.querySelectorAll('iframe').length,"
            " document.querySelectorAll('script').length, document.body.children.length]"
        )
        assert outside == ["notebook", 1, 1, 3]
        browser.enter_frame()
        return browser

    return show


def test_links_marks_and_keys_work_in_it(notebook, answer):
    frame = notebook(answer)
    assert "were never summed over tp" in frame.text("h1")
    frame.evaluate("document.querySelector('a[href=\"#finding-1\"]').click()")
    frame.wait("document.getElementById('finding-1').classList.contains('chosen')")
    frame.evaluate("document.querySelector('article details a').click()")
    frame.wait("document.querySelector('#tensor h2').textContent.includes('main grad')")
    frame.evaluate("document.querySelector('#rows .space .line').click()")
    frame.wait("location.hash.startsWith('#t=0/')")
    frame.press("Escape")
    frame.wait("location.hash === '' && document.getElementById('tensor').hidden")
    assert frame.evaluate("location.href").startswith("about:srcdoc")
    assert frame.problems == [] and frame.requests == []


def test_it_cannot_reach_the_notebook(notebook, answer):
    frame = notebook(answer)
    reached = frame.evaluate("try { parent.document.title } catch (error) { error.name }")
    assert reached == "SecurityError"


def test_names_are_text(notebook, answer, tmp_path):
    document = json.loads(answer.read_text())
    document["headline"] = HOSTILE
    for one in document["results"]:
        one["key"]["name"] += HOSTILE
        one["module"] = HOSTILE
    document["groups"][0]["headline"] = HOSTILE
    document["candidate"]["path"] = HOSTILE
    path = tmp_path / "hostile.json.gz"
    path.write_bytes(gzip.compress(json.dumps(document).encode()))
    frame = notebook(path)
    assert frame.evaluate("document.title") != "reached"
    assert HOSTILE in frame.text("body")
    assert frame.evaluate("document.querySelectorAll('img, iframe').length") == 0
    assert frame.evaluate("document.querySelectorAll('script').length") == 2  # data and script
    assert frame.problems == [] and frame.requests == []


def test_without_the_program_names_are_text_too(answer, tmp_path, monkeypatch):
    document = json.loads(answer.read_text())
    document["headline"] = HOSTILE
    path = tmp_path / "hostile.json"
    path.write_text(json.dumps(document))
    monkeypatch.setenv("TTRACE", str(tmp_path / "gone"))
    shown = report.load(path)._repr_html_()
    assert "<script" not in shown and "<img" not in shown and "&lt;script&gt;" in shown
