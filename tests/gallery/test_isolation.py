"""Two bugs, one downstream of the other: a second pair of runs under a plan names both.

The embedding's mask (P1) makes everything after it wrong, so that the comparison does not name the
swapped chunks in the gradients of weights (P11).
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from support.reports import by_id, findings, read_report
from support.ttrace_cli import DIVERGED, MATCH, UNUSABLE, run_ttrace

from gallery.agreement import ALONE, SEEDS, Agreement
from gallery.expected import EXPECTED
from gallery.together import traced

CONFIG = dataclasses.replace(EXPECTED["P11"].config, microbatches=2, bug=("P1", "P11"))
HEALTHY = dataclasses.replace(CONFIG, bug=())


def reference_run(out: Path) -> Path:
    return traced(dataclasses.replace(CONFIG, **ALONE, bug=(), trace=str(out)), out)


@dataclasses.dataclass(frozen=True)
class Pair:
    reference: Path
    candidate: Path
    noise: list[str | Path]

    def localize(self, out: Path, *flags: str | Path) -> tuple[Any, dict[str, Any]]:
        done = run_ttrace(
            "localize", self.reference, self.candidate, *self.noise, *flags, "--json", out
        )
        assert done.returncode in (MATCH, DIVERGED), done.stderr
        return done, read_report(out)


@pytest.fixture(scope="module")
def plain(agreement: Agreement, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp("plain")
    runs = agreement.references(CONFIG, (0, *SEEDS))
    candidate = traced(CONFIG, folder / "run")
    return Pair(runs[0], candidate, [flag for run in runs[1:] for flag in ("--noise", run)])


@pytest.fixture(scope="module")
def plan(plain: Pair) -> Path:
    path = plain.candidate.parent / "plan.json"
    done, report = plain.localize(path.parent / "localize.json", "--plan", path)
    assert report["written_plan"] == {
        "file": str(path),
        "modules": len(json.loads(path.read_text())["modules"]),
    }
    assert "TTRACE_PLAN=" in done.stdout
    return path


@pytest.fixture(scope="module")
def isolated(plan: Path, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """The same runs under the plan; a perturbation would not travel, so there are no noise runs."""
    folder = tmp_path_factory.mktemp("isolated")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TTRACE_PLAN", str(plan))
        return Pair(reference_run(folder / "ref.h5"), traced(CONFIG, folder / "run"), [])


def at_fault(report: dict[str, Any]) -> dict[str, str]:
    return {
        module["module"]: module["phase"]
        for module in report["isolated"]
        if module["verdict"] == "at_fault"
    }


def test_the_comparison_does_not_name_the_second_bug(plain: Pair, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    done = run_ttrace("compare", plain.reference, plain.candidate, *plain.noise, "--json", path)
    assert done.returncode == DIVERGED
    report = read_report(path)
    results = by_id(report)
    named = [finding["key"] for finding in findings(report)]
    named += [results[suspect["id"]]["key"] for suspect in report["suspects"]]
    assert any(EXPECTED["P1"].covers(key) for key in named)
    assert not any(EXPECTED["P11"].covers(key) for key in named)


def test_both_bugs_are_named_under_the_plan(isolated: Pair, tmp_path: Path) -> None:
    done, report = isolated.localize(tmp_path / "localize.json")
    assert done.returncode == DIVERGED
    assert at_fault(report) == {
        "embedding.word": "forward",
        "layers.0.attn.qkv": "backward",
        "layers.0.mlp.fc1": "backward",
        "layers.1.attn.qkv": "backward",
        "layers.1.mlp.fc1": "backward",
    }
    assert "AT FAULT  layers.1.mlp.fc1" in done.stdout
    assert {module["verdict"] for module in report["isolated"]} == {"at_fault", "holds"}


def test_nothing_is_at_fault_in_a_healthy_pair(
    isolated: Pair, plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TTRACE_PLAN", str(plan))
    healthy = dataclasses.replace(isolated, candidate=traced(HEALTHY, tmp_path / "run"))
    done, report = healthy.localize(tmp_path / "localize.json")
    assert done.returncode == MATCH, done.stdout
    assert len(report["isolated"]) > 20
    assert {module["verdict"] for module in report["isolated"]} == {"holds"}


def test_runs_under_different_plans_are_refused(
    isolated: Pair, plain: Pair, plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.json"
    other.write_text(json.dumps({**json.loads(plan.read_text()), "seed": 2}))
    monkeypatch.setenv("TTRACE_PLAN", str(other))
    seeded = traced(HEALTHY, tmp_path / "run")
    for candidate in (seeded, plain.candidate):
        done = run_ttrace("localize", isolated.reference, candidate)
        assert done.returncode == UNUSABLE
        assert "was rewritten by the plan" in done.stderr
        assert "run both with the same TTRACE_PLAN" in done.stderr


def test_a_plan_is_not_made_of_rewritten_runs(isolated: Pair, tmp_path: Path) -> None:
    path = tmp_path / "again.json"
    done = run_ttrace("localize", isolated.reference, isolated.candidate, "--plan", path)
    assert done.returncode == UNUSABLE
    assert "rewritten by a plan already" in done.stderr
    assert not path.exists()
