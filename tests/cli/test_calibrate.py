"""ttrace calibrate and compare --tolerance: estimates, parts, rules on top, other runs' files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import h5py
import jsonschema_rs
import numpy as np
import pytest
from conformance.write_trace import Tensor, write_candidate, write_reference
from support.reports import findings, read_report
from support.ttrace_cli import DIVERGED, MATCH, REPOSITORY, UNUSABLE

from .conftest import Run
from .small_traces import check_answer, check_diverged, check_match, check_refused

TINY = REPOSITORY / "testdata" / "tiny_gpt"
NOISE = [TINY / f"noise{seed}.h5" for seed in (1, 2, 3)]
SCHEMA = jsonschema_rs.Draft202012Validator(
    json.loads((REPOSITORY / "schemas" / "tolerance.schema.json").read_text())
)
ROWS, COLUMNS = 64, 128


def calibrated(ttrace: Run, out: Path, *more: str | Path, ref: Path = TINY / "ref.h5") -> Any:
    noise = NOISE if ref.parent == TINY else sorted(ref.parent.glob("noise*.h5"))
    done = ttrace("calibrate", ref, *noise, "-o", out, *more)
    check_answer(done, MATCH, "CALIBRATED  ")
    return json.loads(out.read_text())


def write_runs(folder: Path, error: np.ndarray | float = 0.0) -> tuple[Path, Path]:
    """A reference, three noise runs of 1e-5, and a candidate off by noise and `error`."""
    random = np.random.default_rng(3)
    values = random.standard_normal((ROWS, COLUMNS)).astype("<f4")

    def tensors(off: np.ndarray | float) -> list[Tensor]:
        moved = (values + off).astype("<f4")
        return [Tensor("fc", "output", "float32", moved, {"shard": 0})]

    def noise() -> np.ndarray:
        return 1e-5 * random.standard_normal(values.shape)

    write_reference(folder / "ref.h5", tensors(0.0))
    for seed in (1, 2, 3):
        write_reference(folder / f"noise{seed}.h5", tensors(noise()))
    write_candidate(folder / "run", tensors(noise() + error))
    return folder / "ref.h5", folder / "run"


def test_the_file_is_as_its_schema_says_and_holds_the_numbers(tmp_path: Path, ttrace: Run) -> None:
    ref, _ = write_runs(tmp_path)
    made = calibrated(ttrace, tmp_path / "tol.json", ref=ref)
    SCHEMA.validate(made)
    (tensor,) = made["tensors"]

    def values(path: Path) -> np.ndarray:
        with h5py.File(path) as file:
            return np.asarray(file["step_000000/output/fc"], dtype="f8")

    truth = values(ref)
    moved = [values(tmp_path / f"noise{seed}.h5") - truth for seed in (1, 2, 3)]
    assert tensor["norm"] == pytest.approx(np.linalg.norm(truth), rel=1e-12)
    assert tensor["noise"] == pytest.approx([np.linalg.norm(d) for d in moved], rel=1e-12)
    assert tensor["largest"] == pytest.approx([np.abs(d).max() for d in moved], rel=1e-12)
    parts = tensor["parts"]
    assert np.prod(parts) == ROWS * COLUMNS // 64
    even = max(tensor["noise"]) / np.sqrt(np.prod(parts))
    cells = np.array(tensor["cells"]).reshape(parts)
    for row in range(parts[0]):
        for column in range(parts[1]):
            here = np.s_[
                row * ROWS // parts[0] : (row + 1) * ROWS // parts[0],
                column * COLUMNS // parts[1] : (column + 1) * COLUMNS // parts[1],
            ]
            exact = max(np.linalg.norm(d[here]) for d in moved) / even
            assert exact <= cells[row, column] <= 1.011 * exact


@pytest.mark.parametrize("run, exit_code", [("tp2sp", MATCH), ("tp2sp_p12", DIVERGED)])
def test_file_and_noise_runs_judge_alike(
    tmp_path: Path, ttrace: Run, run: str, exit_code: int
) -> None:
    SCHEMA.validate(calibrated(ttrace, tmp_path / "tol.json"))
    noise = [word for path in NOISE for word in ("--noise", path)]
    ways = {"noise": noise, "file": ["--tolerance", tmp_path / "tol.json"]}
    reports = {}
    for way, flags in ways.items():
        out = tmp_path / f"{way}.json"
        done = ttrace("compare", TINY / "ref.h5", TINY / run, *flags, "--json", out)
        assert done.returncode == exit_code, done.stderr
        reports[way] = read_report(out)
    assert reports["file"]["tolerance"].pop("file") == str(tmp_path / "tol.json")
    for made in reports.values():
        del made["environment"]
    assert reports["file"] == reports["noise"]


def test_a_fault_in_a_few_rows_is_found_by_its_part_and_placed(tmp_path: Path, ttrace: Run) -> None:
    error = np.zeros((ROWS, COLUMNS))
    error[40:48] = 9e-5
    ref, run = write_runs(tmp_path, error)
    calibrated(ttrace, tmp_path / "tol.json", ref=ref)
    out = tmp_path / "out.json"
    flags = ["--tolerance", tmp_path / "tol.json", "--json", out]
    done = ttrace("compare", ref, run, *flags)
    check_diverged(done, "fc · output · step 0")
    assert "40 to 47 of 64 along dimension 0" in done.stdout
    (finding,) = findings(read_report(out))
    assert finding["difference_norm"] < finding["allowed_norm"]
    worst = finding["slices"][0]
    assert (worst["what"], worst["origin"], worst["extent"]) == ("block", [40, 0], [8, COLUMNS])
    assert worst["error"] > worst["allowed"]
    assert "as a whole within its tolerance" in finding["reason"]


def test_a_single_wrong_element_is_found(tmp_path: Path, ttrace: Run) -> None:
    error = np.zeros((ROWS, COLUMNS))
    error[3, 5] = 2e-3
    ref, run = write_runs(tmp_path, error)
    calibrated(ttrace, tmp_path / "tol.json", ref=ref)
    done = ttrace("compare", ref, run, "--tolerance", tmp_path / "tol.json")
    check_diverged(done, "fc · output · step 0")
    assert "[3, 5]" in done.stdout


def test_healthy_parts_pass(tmp_path: Path, ttrace: Run) -> None:
    ref, run = write_runs(tmp_path)
    calibrated(ttrace, tmp_path / "tol.json", ref=ref)
    out = tmp_path / "out.json"
    flags = ["--tolerance", tmp_path / "tol.json", "--json", out]
    check_match(ttrace("compare", ref, run, *flags), 1)
    (result,) = read_report(out)["results"]
    assert result["rule"] == "noise" and "slices" not in result
    assert 0 < result["closest_slice"]["error"] < result["closest_slice"]["allowed"]


def with_rules(path: Path, *rules: dict[str, Any]) -> Path:
    made = json.loads(path.read_text())
    made["rules"] = list(rules)
    SCHEMA.validate(made)
    path.write_text(json.dumps(made))
    return path


def test_rules_change_what_is_allowed_and_are_named(tmp_path: Path, ttrace: Run) -> None:
    ref, run = write_runs(tmp_path, 5e-5)
    tol = tmp_path / "tol.json"
    calibrated(ttrace, tol, ref=ref)
    out = tmp_path / "out.json"

    def compare(*rules: dict[str, Any]) -> Any:
        flags = ["--tolerance", with_rules(tol, *rules), "--json", out]
        done = ttrace("compare", ref, run, *flags)
        made = read_report(out)
        assert done.returncode == made["exit_code"]
        return made, made["results"][0]

    assert compare()[0]["verdict"] == "diverged"
    made, result = compare({"name": "x*", "floor": 9}, {"name": "f*", "multiplier": 12})
    assert (made["verdict"], result["rule"]) == ("match", "policy:1")
    assert any("rules/0" in warning for warning in made["warnings"])
    assert compare({"name": "fc", "kind": "param", "multiplier": 12})[0]["verdict"] == "diverged"
    assert compare({"name": "fc", "absolute": 1e-3})[0]["verdict"] == "match"
    _, result = compare({"name": "fc", "exact": True})
    assert (result["outcome"], result["allowed"]) == ("diverged", 0)


def test_a_skipped_tensor_is_counted_and_comes_back_after_its_day(
    tmp_path: Path, ttrace: Run
) -> None:
    ref, run = write_runs(tmp_path, 1.0)
    tol = tmp_path / "tol.json"
    calibrated(ttrace, tol, ref=ref)
    out = tmp_path / "out.json"
    with_rules(tol, {"name": "fc", "skip": "issue 7", "until": "2999-12-31"})
    done = ttrace("compare", ref, run, "--tolerance", tol, "--json", out)
    # Nothing else is there, so nothing was checked: that is no match.
    assert done.returncode == 3
    assert read_report(out)["results"][0]["reason"] == "policy:0: issue 7 (until 2999-12-31)"
    with_rules(tol, {"name": "fc", "skip": "issue 7", "until": "2020-01-31"})
    done = ttrace("compare", ref, run, "--tolerance", tol)
    assert done.returncode == DIVERGED
    assert "ended on 2020-01-31" in done.stderr


def test_rules_of_the_file_that_is_replaced_are_kept(tmp_path: Path, ttrace: Run) -> None:
    ref, run = write_runs(tmp_path, 6e-5)
    tol = tmp_path / "tol.json"
    calibrated(ttrace, tol, ref=ref)
    kept = {"name": ["x*"], "skip": "issue 7", "until": "2999-12-31"}
    with_rules(tol, kept)
    made = calibrated(ttrace, tol, ref=ref)
    assert made["rules"] == [kept] and made["tensors"]
    # Those of a starter come behind them.
    made = calibrated(ttrace, tol, "--starter", run, ref=ref)
    assert made["rules"][0] == kept and made["rules"][1]["name"] == ["fc"]
    # What a person wrote is not lost to a comma either.
    tol.write_text(tol.read_text().replace('"rules"', ',"rules"', 1))
    damaged = tol.read_text()
    done = ttrace("calibrate", ref, tmp_path / "noise1.h5", "-o", tol)
    assert done.returncode == UNUSABLE
    check_refused(done, str(tol), "its rules cannot be read")
    assert tol.read_text() == damaged


def test_one_tolerance_file_is_taken(tmp_path: Path, ttrace: Run) -> None:
    ref, run = write_runs(tmp_path, 6e-5)
    done = ttrace("compare", ref, run, "--tolerance", "a.json", "--tolerance", "b.json")
    assert done.returncode == UNUSABLE
    check_refused(done, "--tolerance is given 2 times, and compare takes one")


def test_a_starter_lets_the_good_run_pass(tmp_path: Path, ttrace: Run) -> None:
    ref, run = write_runs(tmp_path, 6e-5)
    tol = tmp_path / "tol.json"
    made = calibrated(ttrace, tol, "--starter", run, ref=ref)
    (rule,) = made["rules"]
    assert rule["name"] == ["fc"] and rule["kind"] == ["output"]
    assert 4 < rule["multiplier"] < 20
    check_match(ttrace("compare", ref, run, "--tolerance", tol), 1)


def test_another_models_file_is_refused_and_a_kind_less_is_told(
    tmp_path: Path, ttrace: Run
) -> None:
    tol = tmp_path / "tol.json"
    made = calibrated(ttrace, tol)
    ref, run = write_runs(tmp_path)
    done = ttrace("compare", ref, run, "--tolerance", tol)
    check_refused(
        done, "tol.json", "calibrates none of the reference's tensors", "ttrace calibrate"
    )

    def compared_by(tensors: list[dict[str, object]]) -> Any:
        tol.write_text(json.dumps({**made, "tensors": tensors}))
        return ttrace("compare", TINY / "ref.h5", TINY / "tp2sp", "--tolerance", tol)

    tensors = made["tensors"]
    outputs = [t for t in tensors if t["kind"] == "output"]
    fewer = [t for t in tensors if t not in outputs[:4]]
    check_refused(compared_by(fewer), "tol.json", "lacks 4 tensors of the reference")
    other = {k: v for k, v in tensors[0].items() if k not in ("parts", "cells")}
    other["shape"] = [1]
    check_refused(compared_by([other, *tensors[1:]]), "tol.json", "as [1] f32", "ttrace calibrate")
    params = [t for t in tensors if t["kind"] == "param"]
    other = {**params[0], "norm": 1.001 * params[0]["norm"]}
    moved = [other if t is params[0] else t for t in tensors]
    check_refused(compared_by(moved), "tol.json", "had the norm", "ttrace calibrate")
    done = compared_by([t for t in tensors if t["kind"] != "main_grad"])
    assert done.returncode == MATCH
    mains = sum(t["kind"] == "main_grad" for t in tensors)
    assert f"{mains} of kinds and 0 of steps that it has nothing of" in done.stderr


def test_runs_that_were_not_perturbed_and_chaotic_ones_are_told(
    tmp_path: Path, ttrace: Run
) -> None:
    ref, run = write_runs(tmp_path)
    done = ttrace("calibrate", ref, ref, "-o", tmp_path / "tol.json")
    check_refused(done, f"{ref}: is given as a noise run and is the reference")
    copy = shutil.copy(ref, tmp_path / "copy.h5")
    done = ttrace("calibrate", ref, copy, "-o", tmp_path / "tol.json")
    check_refused(done, f"{copy}: equals the reference bit by bit, so nothing in it was perturbed")
    assert not (tmp_path / "tol.json").exists()
    random = np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).astype("<f4")
    write_reference(tmp_path / "wild.h5", [Tensor("fc", "output", "float32", random)])
    done = ttrace("calibrate", ref, tmp_path / "wild.h5", "-o", tmp_path / "tol.json")
    assert "changes 1 tensor by half their norm or more (first fc" in done.stderr
    random[0, 0] = np.nan
    write_reference(tmp_path / "nan.h5", [Tensor("fc", "output", "float32", random)])
    done = ttrace("calibrate", ref, tmp_path / "nan.h5", "-o", tmp_path / "tol.json")
    assert done.returncode == MATCH
    assert json.loads((tmp_path / "tol.json").read_text())["tensors"][0]["noise"] == ["inf"]
    done = ttrace("compare", ref, run, "--tolerance", tmp_path / "tol.json")
    assert done.returncode == 3 and "below the noise floor" in done.stdout


def test_what_is_no_tolerance_file_is_refused(tmp_path: Path, ttrace: Run) -> None:
    ref, run = write_runs(tmp_path)
    bad = tmp_path / "bad.json"
    for text in ("", "{", '{"schema": "ttrace.tolerance/2"}', "[]", "\x00\x01"):
        bad.write_text(text)
        check_refused(ttrace("compare", ref, run, "--tolerance", bad), "bad.json")
    check_refused(ttrace("compare", ref, run, "--tolerance", tmp_path / "none.json"), "none.json")
    check_refused(ttrace("calibrate", ref, ref, "-o", ref), "ref.h5")
    done = ttrace("calibrate", ref, TINY / "noise1.h5", "-o", tmp_path / "tol.json")
    check_refused(done, "noise1.h5: lacks 1 tensor of the reference (first fc · output · step 0)")
    # A run that was told not to record outputs lacks none.
    with h5py.File(shutil.copy(TINY / "noise1.h5", tmp_path / "told.h5"), "r+") as file:
        manifest = json.loads(file["manifest"][()])
        manifest["run"]["recorded"]["kinds"].remove("output")
        manifest["tensors"] = [e for e in manifest["tensors"] if e["kind"] != "output"]
        del file["manifest"]
        file["manifest"] = json.dumps(manifest)
    done = ttrace("calibrate", ref, tmp_path / "told.h5", "-o", tmp_path / "tol.json")
    check_refused(done, "ref.h5: no floating-point tensor of it is in a perturbed run")
    assert not (tmp_path / "tol.json").exists()
