"""The whole way on real runs: the committed traces, and the same pair traced anew in bf16."""

from __future__ import annotations

from pathlib import Path

import pytest
from gallery.together import trained
from support.another_run import copy_as_another_run
from support.reports import findings, read_report
from support.text_report import answer
from support.ttrace_cli import TESTDATA, run_ttrace

NORM_PARAMETERS = {
    f"{norm}.{leaf}"
    for norm in (
        "layers.0.norm1",
        "layers.0.norm2",
        "layers.1.norm1",
        "layers.1.norm2",
        "final_norm",
    )
    for leaf in ("weight", "bias")
}


def compare(reference: Path, run: Path, noise: list[Path], folder: Path) -> tuple[int, str, dict]:
    """Exit code, text report and JSON report."""
    flags = [argument for path in noise for argument in ("--noise", str(path))]
    report = folder / "report.json"
    done = run_ttrace("compare", str(reference), str(run), *flags, "--json", str(report))
    return done.returncode, done.stdout, read_report(report)


def check_healthy(exit_code: int, text: str, report: dict, tensors: int = 202) -> None:
    assert exit_code == 0, text
    assert text.startswith(f"MATCH  {tensors} tensors")
    assert report["verdict"] == "match"
    assert report["counts"]["match"] == report["counts"]["total"] == tensors
    assert report["findings"] == []


def check_p12(exit_code: int, text: str, report: dict) -> None:
    assert exit_code == 1, text
    assert "\n  first at layers.0.norm1.weight · main_grad" in text
    blamed = [finding["key"] for finding in findings(report)]
    assert {key["kind"] for key in blamed} == {"main_grad"}
    assert {key["name"] for key in blamed} == NORM_PARAMETERS
    assert len(blamed) == len(NORM_PARAMETERS)
    for finding in findings(report):
        assert finding["outcome"] == "replica_conflict"
        assert finding["replica_classes"] == [[0], [1]]
        assert finding["phase"] == "synchronisation"
        assert [cause["name"] for cause in finding["causes"]] == ["missing_reduction"]
        assert finding["causes"][0]["axis"] == "tp"
    bad = {
        (result["key"]["kind"], result["key"]["name"])
        for result in report["results"]
        if result["outcome"] not in ("match", "below_noise_floor")
    }
    follows = {("param_after_step", name) for name in NORM_PARAMETERS} | {
        ("grad_norm", "grad_norm")
    }
    assert bad <= {("main_grad", name) for name in NORM_PARAMETERS} | follows


@pytest.fixture(params=["noise runs", "fallback"])
def noise(request: pytest.FixtureRequest) -> list[Path]:
    if request.param == "fallback":
        return []
    return [TESTDATA / f"noise{seed}.h5" for seed in (1, 2, 3)]


def test_healthy_run_matches(noise: list[Path], tmp_path: Path) -> None:
    check_healthy(*compare(TESTDATA / "ref.h5", TESTDATA / "tp2sp", noise, tmp_path))


def test_p12_is_blamed_on_the_norms(noise: list[Path], tmp_path: Path) -> None:
    check_p12(*compare(TESTDATA / "ref.h5", TESTDATA / "tp2sp_p12", noise, tmp_path))


def test_the_reference_agrees_with_another_run_of_the_same_values(tmp_path: Path) -> None:
    other = copy_as_another_run(TESTDATA / "ref.h5", tmp_path / "other.h5")
    exit_code, text, report = compare(TESTDATA / "ref.h5", other, [], tmp_path)
    check_healthy(exit_code, text, report)
    assert answer(text).endswith("; all values equal")
    replayed = [result for result in report["results"] if result["rule"] == "replay"]
    assert {result["key"]["kind"] for result in replayed} == {"grad_norm", "param_after_step"}
    assert all(result["replay"]["against_reference"]["error"] == 0 for result in replayed)
    assert all(result["error"] == 0 for result in report["results"] if result not in replayed)


def test_a_perturbed_run_in_the_place_of_the_candidate_is_told(tmp_path: Path) -> None:
    done = run_ttrace("compare", str(TESTDATA / "ref.h5"), str(TESTDATA / "noise1.h5"))
    assert "is a perturbed run (seed 1)" in done.stderr


BF16 = ("--precision", "bf16")
BF16_PARALLEL = (*BF16, "--tp", "2", "--sp")


@pytest.fixture(scope="module")
def bf16(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same runs as in testdata, in bf16 and made here."""
    folder = tmp_path_factory.mktemp("bf16")
    runs = [
        ("ref.h5", BF16),
        *((f"noise{s}.h5", (*BF16, "--perturb", str(s))) for s in (1, 2, 3)),
        ("tp2sp", BF16_PARALLEL),
        ("tp2sp_p12", (*BF16_PARALLEL, "--bug", "P12")),
    ]
    for name, options in runs:
        trained(*options, "--trace", str(folder / name))
    return folder


@pytest.fixture(params=["noise runs", "fallback"])
def bf16_noise(request: pytest.FixtureRequest, bf16: Path) -> list[Path]:
    if request.param == "fallback":
        return []
    return [bf16 / f"noise{seed}.h5" for seed in (1, 2, 3)]


def test_healthy_bf16_run_matches(bf16: Path, bf16_noise: list[Path], tmp_path: Path) -> None:
    # The optimizer updates a wider copy of each of the 28 parameters, which is recorded too.
    count = 202 + 28
    check_healthy(*compare(bf16 / "ref.h5", bf16 / "tp2sp", bf16_noise, tmp_path), tensors=count)


def test_p12_in_bf16_is_blamed_on_the_norms(
    bf16: Path, bf16_noise: list[Path], tmp_path: Path
) -> None:
    check_p12(*compare(bf16 / "ref.h5", bf16 / "tp2sp_p12", bf16_noise, tmp_path))
