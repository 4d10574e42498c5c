"""A slip in a hand-written layout is a finding, and hides nothing that is behind it."""

from __future__ import annotations

import pytest
from support.reports import findings, read_report
from support.text_report import answer
from support.ttrace_cli import DIVERGED, MATCH, UNUSABLE, run_ttrace

from by_hand.page import edited, train, trainer

TRACE = "tracer = tt.trace(model, optimizer, mesh=mesh, layouts=layouts)"


def slip_in(number: int, layout: str) -> tuple[str, str]:
    """Records under another layout than the model has."""
    return TRACE, f"layouts[{number}] = {layout}\n{TRACE}"


# Slip -> the layout that is declared wrongly, and the tensor that shows it.
SLIPS = {
    "declared whole": (
        slip_in(6, 'tt.Layout("head", input=hidden, params={"weight": rows})'),
        ("head", "output"),
    ),
    "another dimension": (
        slip_in(4, 'tt.Layout("*.act", input={"tp": tt.Shard(0)}, output=features)'),
        ("layers.0.act", "input"),
    ),
    "a weight's other dimension": (
        slip_in(
            5,
            'tt.Layout("*.down", features, hidden, params={"weight": rows}, '
            'param_grads={"bias": terms})',
        ),
        ("layers.0.down.weight", "param"),
    ),
}
LAYOUT = {"tp": 2, "sp": 1}

# What is behind the slips: the norms are not summed under sequence parallelism.
BUG = ('("norm" in name or name.endswith("down.bias"))', 'name.endswith("down.bias")')


def compared(reference, out, *flags):
    report = out.with_suffix(".json")
    done = run_ttrace(
        "compare", reference[0], out, "--noise", reference[1], "--json", report, *flags
    )
    return done, read_report(report)


def is_slip(finding):
    return finding["causes"] and finding["causes"][0]["name"] == "wrong_layout_declared"


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_all_that_is_found_of_a_healthy_run(reference, tmp_path, slip):
    edit, shown = SLIPS[slip]
    train(edited(trainer(), edit), tmp_path / "run", **LAYOUT)
    done, report = compared(reference, tmp_path / "run")
    assert done.returncode == DIVERGED
    assert all(is_slip(one) for one in findings(report)), done.stdout
    key = findings(report)[0]["key"]
    assert (key["name"], key["kind"]) == shown, done.stdout
    first = answer(done.stdout)
    assert "is declared wrongly; as it fits, all else agrees" in first, first
    # The rules that the report gives mend the recording.
    rules = ", ".join(one["rule"] for one in report["followed_layouts"])
    file = tmp_path / "rules.json"
    file.write_text(f'{{"schema": "ttrace.layout/1", "rules": [{rules}]}}')
    mended, _ = compared(reference, tmp_path / "run", "--layout", file)
    assert mended.returncode == MATCH, mended.stdout


@pytest.mark.parametrize("slip", SLIPS)
def test_a_bug_behind_a_slip_is_found(reference, tmp_path, slip):
    edit, shown = SLIPS[slip]
    train(edited(trainer(), edit, BUG), tmp_path / "run", **LAYOUT)
    done, report = compared(reference, tmp_path / "run")
    assert done.returncode == DIVERGED
    slips = [one for one in findings(report) if is_slip(one)]
    others = [one for one in findings(report) if not is_slip(one)]
    assert shown in {(one["key"]["name"], one["key"]["kind"]) for one in slips}, done.stdout
    assert others, done.stdout
    first = others[0]
    assert first["key"]["kind"] == "main_grad", done.stdout
    assert first["causes"][0]["name"] == "missing_reduction", done.stdout
    assert "layers.*.norm.*) were never summed over tp" in answer(done.stdout), done.stdout


@pytest.fixture(scope="module")
def specification(tmp_path_factory):
    folder = tmp_path_factory.mktemp("specified")
    file = folder / "specification.json"
    train(trainer(), folder / "ref.h5", TTRACE_SPECIFICATION=str(file))
    return file


def test_audit_and_localize_name_the_layout(reference, specification, tmp_path):
    edit, _ = SLIPS["declared whole"]
    train(edited(trainer(), edit), tmp_path / "run", **LAYOUT)
    audited = run_ttrace("audit", tmp_path / "run", "--specification", specification)
    assert audited.returncode == UNUSABLE
    assert "its layout looks wrong; it fits if declared as" in audited.stderr, audited.stderr
    assert "of another model" not in audited.stderr
    flags = "--noise", reference[1], "--specification", specification
    localized = run_ttrace("localize", reference[0], tmp_path / "run", *flags)
    assert localized.returncode == DIVERGED, localized.stderr
    assert "wrong_layout_declared" in localized.stdout, localized.stdout
