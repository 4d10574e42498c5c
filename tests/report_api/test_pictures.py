"""Frames and plots."""

from __future__ import annotations

import json
import math
import sys

import pytest

from ttrace_torch import report

PICTURES = ["profile", "layers", "steps", "histogram"]


@pytest.fixture(autouse=True)
def _closed():
    yield
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot:
        pyplot.close("all")


def drawn(axes, path):
    axes.figure.savefig(path)
    assert path.stat().st_size > 5000
    return axes


def test_a_frame_has_a_row_a_tensor(diverged, audited):
    pytest.importorskip("pandas", reason="pandas is not installed: tests/requirements.txt")
    frame = diverged.frame()
    assert list(frame.index) == [one.id for one in diverged.results]
    worst = frame[frame.used > 1]
    # The gradients' copies differ, and so do those of what is updated by them.
    assert set(worst.kind) == {"main_grad", "grad_norm", "param_after_step"} and len(worst) == 21
    assert frame.groupby("layer").used.max().loc[0] > 1e4
    assert str(frame.layer.dtype) == "Int64" and frame.used.dtype == float
    assert len(audited.frame().query("outcome == 'broken'")) == 20


def test_the_frame_of_localize_has_a_row_a_finding(localized):
    pytest.importorskip("pandas", reason="pandas is not installed: tests/requirements.txt")
    (row,) = localized.frame().to_dict("records")
    assert (row["cause"], row["axis"], row["tensors"]) == ("missing_reduction", "tp", 10)


@pytest.mark.parametrize("what", PICTURES)
@pytest.mark.parametrize("fixture", ["healthy", "diverged", "audited"])
def test_pictures_are_drawn(request, tmp_path, fixture, what):
    axes = drawn(request.getfixturevalue(fixture).plot(what), tmp_path / "plot.png")
    assert axes.get_title(loc="left").startswith(("compare: ", "audit: "))


def test_the_profile_has_a_mark_a_tensor(diverged):
    fine, wrong = diverged.plot().collections
    assert (len(fine.get_offsets()), len(wrong.get_offsets())) == (181, 21)
    assert max(wrong.get_offsets()[:, 1]) == pytest.approx(7254872.33)
    assert min(fine.get_offsets()[:, 1]) == 1e-4


def test_the_cell_of_layers_is_the_worst_tensor(diverged):
    axes = diverged.plot("layers")
    cells = axes.images[0].get_array()
    kinds = [label.get_text() for label in axes.get_xticklabels()]
    rows = [label.get_text() for label in axes.get_yticklabels()]
    worst = max(
        one.used for one in diverged.results if (one.layer, one.key.kind) == (1, "main_grad")
    )
    value = cells[rows.index("layer 1"), kinds.index("main_grad")]
    assert value == pytest.approx(math.log10(worst))
    assert bool(cells.mask[rows.index("layer 1"), kinds.index("loss")])


def test_no_layer_of_many_is_lost(diverged, tmp_path):
    document = json.loads(diverged.show("json"))
    numbered = [one for one in document["results"] if one["key"]["kind"] == "output"]
    document["results"] = []
    for layer in range(1000):
        one = {**numbered[0], "layer": layer, "used": 5e3 if layer == 777 else 0.1}
        document["results"].append(one)
    path = tmp_path / "deep.json"
    path.write_text(json.dumps(document))
    axes = report.load(path).plot("layers")
    cells = axes.images[0].get_array()
    assert cells.shape == (100, 1)
    assert [row for row in range(100) if cells[row, 0] > 0] == [77]


def test_the_histogram_counts_every_tensor(diverged):
    axes = diverged.plot("histogram")
    assert sum(bar.get_height() for part in axes.containers for bar in part) == 202


def test_it_draws_into_given_axes(diverged):
    from matplotlib import pyplot

    _, (left, right) = pyplot.subplots(1, 2)
    assert diverged.plot("steps", left) is left and diverged.plot("histogram", axes=right) is right


@pytest.mark.parametrize("what", PICTURES)
def test_values_that_are_not_finite_are_drawn_at_the_top(diverged, tmp_path, what):
    document = json.loads(diverged.show("json"))
    for at, value in ((3, "inf"), (150, "nan")):
        document["results"][at]["used"] = value
    for at in range(100, 202):
        document["results"][at]["key"]["step"] = 1 + at % 40
    path = tmp_path / "r.json"
    path.write_text(json.dumps(document))
    axes = drawn(report.load(path).plot(what), tmp_path / "plot.png")
    if what == "profile":
        assert sum(len(part.get_offsets()) for part in axes.collections) == 202


def test_what_cannot_be_drawn_is_one_sentence(diverged, localized, tmp_path):
    with pytest.raises(report.ReportError, match="there are 'profile', 'layers'"):
        diverged.plot("pie")
    with pytest.raises(report.ReportError, match="has no numbers of what is not a finding"):
        localized.plot()
    document = {**json.loads(diverged.show("json")), "detail": "findings"}
    path = tmp_path / "r.json"
    path.write_text(json.dumps(document))
    with pytest.raises(report.ReportError, match="r.json has no numbers"):
        report.load(path).plot()


@pytest.mark.parametrize(
    ("module", "package", "ask"),
    [
        ("pandas", "pandas", lambda found: found.frame()),
        ("matplotlib.pyplot", "matplotlib", lambda found: found.plot()),
    ],
)
def test_a_package_that_is_missing_is_named_with_the_line_that_installs_it(
    monkeypatch, diverged, module, package, ask
):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(report.ReportError, match=f"needs {package} .*: pip install {package}$"):
        ask(diverged)


@pytest.fixture
def nights(folder, healthy, diverged):
    return report.trend([folder / "healthy.json", folder / "diverged.json.gz"])


def test_a_trend_has_the_worst_tensors_of_many_nights(nights, tmp_path):
    assert str(nights).startswith("TREND  2 nights")
    used = nights.used(worst=3)
    assert [round(values[1]) for values in used.values()] == [7254872, 4061386, 3502837]
    assert all(values[0] < 1 for values in used.values())
    axes = drawn(nights.plot(), tmp_path / "trend.png")
    assert len(axes.lines) == 10 + 1  # and what is allowed


def test_the_frame_of_a_trend_has_a_row_a_night(nights):
    pytest.importorskip("pandas", reason="pandas is not installed: tests/requirements.txt")
    assert nights.frame(worst=4).shape == (2, 4)


def test_a_trend_needs_reports(folder, healthy):
    with pytest.raises(report.ReportError, match="no report was given"):
        report.trend([])
    with pytest.raises(report.CommandFailed, match="gone.json"):
        report.trend([folder / "healthy.json", "gone.json"])
