"""The trainers of the pages on pipelines and experts by hand: healthy in every layout, and bugs are
found at their place."""

from __future__ import annotations

import pytest
from support.reports import findings, read_report
from support.ttrace_cli import DIVERGED, INCONCLUSIVE, MATCH, run_ttrace

from by_hand.page import edited, train, trainer

PIPELINE, EXPERTS = "pipeline_by_hand", "experts_by_hand"

LAYOUTS = [
    (PIPELINE, {"pp": 2}),
    (PIPELINE, {"pp": 4}),
    (PIPELINE, {"dp": 2, "pp": 2}),
    (EXPERTS, {"ep": 2}),
    (EXPERTS, {"ep": 4}),
]

# Bug -> page, layout, edits, and what the first finding says: name, kind.
BUGS = {
    "the table's gradient is not shared by the ends": (
        PIPELINE,
        {"pp": 2},
        [("if PP > 1 and (first or last):", "if False:")],
        ("embedding.weight", "main_grad"),
    ),
    "gradients go back in the order of the stages' sends": (
        PIPELINE,
        {"pp": 2},
        [("zip(numbers, waiting)", "zip(numbers, waiting if last else waiting[::-1])")],
        ("layers.1", "grad_output"),
    ),
    "gates are not sorted with their rows": (
        EXPERTS,
        {"ep": 2},
        [("weights[by_expert]", "weights")],
        ("layers.0.mixture.experts[gates]", "input"),
    ),
    "rows come back in another order": (
        EXPERTS,
        {"ep": 2},
        [("out[by_expert.argsort()]", "out[by_expert]")],
        ("layers.0.mixture", "output"),
    ),
    "an expert loses its last row": (
        EXPERTS,
        {"ep": 2},
        [("* gates[:, None]", "* (gates * (torch.arange(len(gates)) < len(gates) - 1))[:, None]")],
        ("layers.0.mixture.experts", "output"),
    ),
    "the experts' gradients are divided twice": (
        EXPERTS,
        {"ep": 2},
        [
            (
                '            if EP > 1 and "experts" not in name:\n',
                '            if "experts" in name:\n'
                "                parameter.grad /= EP\n"
                '            if EP > 1 and "experts" not in name:\n',
            )
        ],
        ("layers.0.mixture.experts.up", "main_grad"),
    ),
}


@pytest.fixture(scope="module")
def references(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    for page in (PIPELINE, EXPERTS):
        train(trainer(page), folder / f"{page}.h5", TTRACE_SPECIFICATION=folder / f"{page}.json")
        train(trainer(page), folder / f"{page}_noise.h5", TTRACE_NOISE="1")
    return folder


def compared(references, page, out):
    ref, noise = references / f"{page}.h5", references / f"{page}_noise.h5"
    report = out.with_suffix(".json")
    done = run_ttrace("compare", ref, out, "--noise", noise, "--json", report)
    return done, read_report(report)


@pytest.mark.parametrize("page, layout", LAYOUTS)
def test_a_healthy_run_matches(references, tmp_path, page, layout):
    said = train(trainer(page), tmp_path / "run", **layout)
    (line,) = said.splitlines()  # what was recorded, and nothing to complain of
    assert line.startswith("ttrace: step 0, ")
    linted = run_ttrace("lint", tmp_path / "run")
    assert linted.stdout.startswith("CLEAN"), linted.stdout
    done, report = compared(references, page, tmp_path / "run")
    assert done.returncode == MATCH, done.stdout
    assert "nothing unchecked" in done.stdout
    assert report["counts"]["match"] == report["counts"]["total"], done.stdout
    audit = run_ttrace("audit", tmp_path / "run", "--specification", references / f"{page}.json")
    # Parts of sizes that depend on data have no expression.
    assert audit.returncode == (MATCH if page == PIPELINE else INCONCLUSIVE), audit.stdout
    assert " 0 broken, " in audit.stdout


def test_rows_whose_labels_do_not_ascend_break_nothing(references, tmp_path):
    by_token = ("(chosen * EP + rank) * len(order) + order", "rank * len(order) + order")
    source, files = edited(trainer(EXPERTS), by_token), [tmp_path / "ref.h5", tmp_path / "spec"]
    train(source, files[0], TTRACE_SPECIFICATION=files[1])
    train(source, tmp_path / "run", ep=2)
    done = run_ttrace("compare", files[0], tmp_path / "run")
    assert done.returncode == MATCH, done.stdout
    audit = run_ttrace("audit", tmp_path / "run", "--specification", files[1])
    assert audit.returncode == INCONCLUSIVE and " 0 broken, " in audit.stdout, audit.stdout


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_is_found(references, tmp_path, bug):
    page, layout, edits, expected = BUGS[bug]
    train(edited(trainer(page), *edits), tmp_path / "run", **layout)
    done, report = compared(references, page, tmp_path / "run")
    assert done.returncode == DIVERGED, done.stdout
    first = findings(report)[0]["key"]
    assert (first["name"], first["kind"]) == expected, done.stdout


def test_routed_rows_without_their_numbers_are_told(references, tmp_path):
    """Each expert has its rows in the order of arrival, which is no bug, and nobody says so."""
    source = edited(
        trainer(EXPERTS),
        (
            "exchanged(chosen, sent, received).argsort",
            "exchanged(chosen, sent, received).flip(0).argsort",
        ),
        (
            "        tracer.index(",
            "        by_expert = sum(received) - 1 - by_expert\n        tracer.index(",
        ),
        ('{"ep": tt.Rows(0, f"rows.{number}")}', '{"ep": tt.Shard(0)}'),
    )
    train(source, tmp_path / "run", ep=4)
    done, report = compared(references, EXPERTS, tmp_path / "run")
    assert done.returncode == DIVERGED, done.stdout
    first = findings(report)[0]
    assert first["key"]["name"] == "layers.0.mixture.experts"
    assert "rows along dimension 0 in another order within each of 4 ranks" in done.stdout
    assert report["counts"]["diverged"] == 16, done.stdout
