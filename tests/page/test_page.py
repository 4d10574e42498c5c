"""The page in a browser: what a person does with it works, and the console stays empty."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.ttrace_cli import TESTDATA, run_ttrace

from page.conftest import page_of

FINDING = "0/-/main_grad/final_norm.bias/0/0"
HOSTILE = (
    "</script><script>window.pwned=1</script><img src=x onerror=window.pwned=1>\"'&\u202e\x1b[2J"
)


@pytest.fixture
def opened(browser, answer):
    browser.open(answer.with_suffix(".html"))
    yield browser
    assert browser.problems == []


def test_it_shows_the_answer_and_every_tensor(opened):
    assert opened.text(".verdict") == "DIVERGED"
    assert opened.evaluate("page.profile.marks.length") == 202
    assert opened.text("#shown") == "202 tensors"
    assert opened.evaluate("document.querySelectorAll('#depth-table tbody tr').length") > 5
    assert opened.visible("#mesh-map")
    assert not opened.visible("#worst")
    assert {url.partition(":")[0] for url in opened.requests} <= {"file", "data"}


def test_the_profile_is_drawn_where_the_errors_are(opened):
    """Pixels of the finding's mark are red, those of a place without marks are not."""
    mark = opened.evaluate(
        f"(() => {{ const at = page.tensors.find({FINDING!r});"
        "const m = page.profile.marks.find((one) => one.at === at);"
        "const c = document.getElementById('profile'); const s = window.devicePixelRatio;"
        "const column = c.getContext('2d').getImageData(m.x * s, m.y * s, 1, 61 * s).data;"
        "return [[...column.slice(0, 4)], [...column.slice(-4)]]; })()"
    )
    red, ground = mark
    assert red[0] > 150 and red[1] < 80 and red[3] == 255
    assert ground != red


def test_a_filter_narrows_the_table(opened):
    opened.click("#filter")
    opened.write("main_grad norm1 bias")
    opened.wait("document.getElementById('shown').textContent === '2 of 202 tensors'")
    names = opened.evaluate(
        "[...document.querySelectorAll('#rows .space .line')]"
        ".map((line) => line.children[0].textContent)"
    )
    assert sorted(names) == ["layers.0.norm1.bias", "layers.1.norm1.bias"]
    opened.press("Escape")
    opened.wait("document.getElementById('shown').textContent === '202 tensors'")
    opened.click(".counts li[data-outcome=replica_conflict] button")
    opened.wait("document.getElementById('shown').textContent === '20 of 202 tensors'")


def test_a_click_on_a_heading_sorts(opened):
    first = "document.querySelector('#rows .space .line').children[0].textContent"
    assert opened.evaluate(first) == "layers.0.norm1.bias"  # most is used of it
    opened.click("#rows .head [data-column=name] button")
    assert opened.evaluate(first) == "(model)"
    opened.click("#rows .head [data-column=name] button")
    assert opened.evaluate(first) != "(model)"
    assert opened.evaluate("document.querySelector('[data-column=name]').ariaSort") == "descending"


def test_a_click_on_a_mark_opens_its_tensor_and_names_it_in_the_address(opened):
    x, y = opened.evaluate(
        "(() => { const c = document.getElementById('profile');"
        "c.scrollIntoView({block: 'center'});"
        f"const m = page.profile.marks.find((one) => one.at === page.tensors.find({FINDING!r}));"
        "const r = c.getBoundingClientRect(); return [r.x + m.x + 1, r.y + m.y]; })()"
    )
    opened.click_at(x, y)
    opened.wait("!document.getElementById('tensor').hidden")
    assert FINDING in opened.text("#tensor")
    assert opened.evaluate("location.hash") == f"#t={FINDING}"
    opened.press("Escape")
    opened.wait("document.getElementById('tensor').hidden")


def test_an_address_opens_the_tensor_that_it_names(browser, answer):
    browser.open(answer.with_suffix(".html"), "t=0/0/output/layers.1.attn.qkv/0/0")
    assert "layers.1.attn.qkv" in browser.text("#tensor h2")
    browser.evaluate("document.querySelector('article details a').click()")
    browser.wait("document.querySelector('#tensor h2').textContent.includes('main grad')")
    browser.open(answer.with_suffix(".html"), "finding-1")
    assert browser.evaluate("document.getElementById('finding-1').classList.contains('chosen')")
    assert browser.problems == []


def test_it_works_by_keyboard_alone(opened):
    opened.press("n")
    opened.wait("location.hash === '#finding-1'")
    opened.press("/")
    assert opened.evaluate("document.activeElement.id") == "filter"
    opened.write("head")
    opened.evaluate("document.getElementById('rows').focus()")
    opened.press("ArrowDown")
    opened.press("Enter")
    opened.wait("!document.getElementById('tensor').hidden")
    assert "head" in opened.text("#tensor h2")
    opened.press("Escape")
    opened.evaluate("document.getElementById('profile').focus()")
    opened.press("ArrowRight")
    opened.press("ArrowRight")
    opened.press("Enter")
    opened.wait("!document.getElementById('tensor').hidden")


def test_light_and_dark(opened):
    ground = "getComputedStyle(document.body).backgroundColor"
    for scheme in ("light", "dark"):
        opened.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )
        red = int(opened.evaluate(ground).partition("(")[2].partition(",")[0])
        assert (red > 128) == (scheme == "light")
    opened.click("#theme")  # light, whatever the system has
    assert opened.evaluate(ground) == "rgb(255, 255, 255)"
    opened.call("Emulation.setEmulatedMedia", features=[])


def test_print_has_the_worst_tensors_in_place_of_the_table(opened):
    opened.call("Emulation.setEmulatedMedia", media="print")
    assert opened.visible("#worst") and opened.visible("#finding-1")
    assert not opened.visible("#rows") and not opened.visible("#filter")
    opened.call("Emulation.setEmulatedMedia", media="")


def test_without_scripts_it_shows_the_answer_the_findings_and_the_worst(browser, answer):
    browser.open(answer.with_suffix(".html"), scripts=False)
    for there in ("h1", "#finding-1", "#worst", f"[id='t={FINDING}']"):
        assert browser.visible(there), there
    for absent in ("#profile", "#filter", "#rows"):
        assert not browser.visible(absent), absent
    assert browser.problems == []


def test_ten_thousand_diverged_tensors(browser, large):
    assert large.stat().st_size < 3_000_000
    browser.open(large)
    assert browser.evaluate("performance.now()") < 10_000  # 2 s on a quiet machine
    assert browser.evaluate("page.profile.marks.length") == 10_000
    assert browser.text("#shown") == "10000 tensors"
    assert browser.evaluate("document.querySelectorAll('#rows .line').length") < 100
    took = browser.evaluate(
        "Math.min(...['layers.7', 'part_3 mb', 'weight', 'nothing', 'layers.42.'].map((words) => {"
        "document.getElementById('filter').value = words; const begin = performance.now();"
        "page.table.filter(); return performance.now() - begin; }))"
    )
    assert took < 100
    assert browser.text("#shown") == "20 of 10000 tensors"
    browser.evaluate("page.table.narrow({})")
    browser.evaluate("document.getElementById('rows').scrollTop = 1e9")
    browser.wait(
        "document.querySelector('#rows .space').lastChild.getAttribute('aria-rowindex') === '10001'"
    )
    assert browser.problems == []


def test_texts_of_a_report_are_not_run(browser, answer, folder):
    report = json.loads(answer.read_text())
    report["headline"] = HOSTILE
    report["reference"]["path"] = HOSTILE
    report["warnings"] = [HOSTILE]
    report["findings"][0]["where"] = HOSTILE
    report["groups"][0]["title"] = HOSTILE
    for result in report["results"]:
        result["key"]["name"] = HOSTILE + result["key"]["name"]
        result["reason"] = HOSTILE
    path = folder / "hostile.json"
    path.write_text(json.dumps(report))
    page = page_of(path)
    assert "\u202e" not in page.read_text() and "\x1b" not in page.read_text()
    browser.open(page)
    assert browser.text("h1").startswith("</script><script>window.pwned=1</script>")
    browser.evaluate("page.choose(0)")
    assert browser.evaluate("document.querySelectorAll('img, #tensor script').length") == 0
    assert browser.evaluate("window.pwned") is None
    assert browser.problems == []


@pytest.mark.parametrize("command", ["audit", "localize"])
def test_other_answers_have_pages(browser, folder, command):
    page = folder / f"{command}.html"
    traces = (
        [TESTDATA / "tp2sp_p12"]
        if command == "audit"
        else [TESTDATA / "ref.h5", TESTDATA / "tp2sp_p12"]
    )
    done = run_ttrace(
        command, *traces, "--specification", TESTDATA / "specification.json", "--html", page
    )
    assert done.returncode == 1, done.stderr
    browser.open(page)
    assert browser.visible("#finding-1")
    assert browser.visible("#profile") == (command == "audit")
    assert browser.problems == []


def test_a_healthy_run(browser, folder):
    page = folder / "healthy.html"
    pair = (TESTDATA / "ref.h5", TESTDATA / "tp2sp")
    done = run_ttrace("compare", *pair, "--noise", TESTDATA / "noise1.h5", "--html", page)
    assert done.returncode in (0, 3), done.stderr
    browser.open(page)
    assert browser.evaluate("document.querySelectorAll('article').length") == 0
    assert browser.evaluate("page.profile.marks.length") == 202
    assert browser.problems == []


def test_what_is_no_answer_is_refused(tmp_path: Path):
    for text, said in (
        ('{"schema": "ttrace.report/1"}', 'this ttrace reads "ttrace.answer/1"'),
        ("[1]", ""),
        ("{", ""),
        ("\x1f", ""),
    ):
        file = tmp_path / "old.json"
        file.write_text(text)
        done = run_ttrace("report", "show", file, "--format", "html")
        assert done.returncode == 2 and done.stdout == ""
        assert str(file) in done.stderr and said in done.stderr
        assert done.stderr.count("\n") == 1
