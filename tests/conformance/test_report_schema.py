"""Reports of real comparisons follow schemas/report.schema.json."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path

import h5py
import jsonschema
import numpy as np
import pytest
from support.ttrace_cli import REPOSITORY, TESTDATA

from .conftest import Run
from .write_trace import Tensor, sample_tensors, write_candidate, write_reference

SCHEMA = json.loads((REPOSITORY / "schemas" / "report.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
NOISE = [flag for i in (1, 2, 3) for flag in ("--noise", TESTDATA / f"noise{i}.h5")]


def report_of(ttrace: Run, folder: Path, *arguments: str | Path) -> dict:
    path = folder / "report.json"
    done = ttrace("compare", *arguments, "--json", path)
    report = json.loads(path.read_text(), parse_constant=lambda word: pytest.fail(word))
    VALIDATOR.validate(report)
    assert done.returncode == report["exit_code"]
    assert done.stdout.startswith(report["verdict"].upper())
    counts = dict(report["counts"])
    assert counts.pop("total") == len(report["results"]) == sum(counts.values())
    return report


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("noise", [[], NOISE], ids=["fallback", "noise"])
def test_a_match(ttrace: Run, tmp_path: Path, noise: list) -> None:
    report = report_of(ttrace, tmp_path, TESTDATA / "ref.h5", TESTDATA / "tp2sp", *noise)
    assert report["verdict"] == "match"
    assert report["tolerance"]["rule"] == ("noise" if noise else "fallback")


def test_a_divergence(ttrace: Run, tmp_path: Path) -> None:
    report = report_of(ttrace, tmp_path, TESTDATA / "ref.h5", TESTDATA / "tp2sp_p12", *NOISE)
    assert report["verdict"] == "diverged"
    assert len(report["frontier"]) == 10


def test_a_lost_rank(ttrace: Run, tmp_path: Path) -> None:
    shutil.copytree(TESTDATA / "tp2sp", tmp_path / "run")
    (tmp_path / "run" / "rank_00001.h5").unlink()
    report = report_of(ttrace, tmp_path, TESTDATA / "ref.h5", tmp_path / "run")
    assert report["verdict"] == "inconclusive"
    assert report["counts"]["unreadable"] > 0
    assert len(report["warnings"]) == 1


def test_every_outcome_and_numbers_that_are_not_finite(ttrace: Run, tmp_path: Path) -> None:
    def floats(name: str, *values: float) -> Tensor:
        return Tensor(name, "output", "float32", np.array(values, "<f4"))

    nan = float("nan")
    reference = [
        floats("zero", 0, 0),
        floats("nan", 1, nan),
        floats("nothing", nan, nan),
        floats("shape", 1, 2),
        floats("lost", 1, 2),
        floats("missing", 1, 2),
        floats("noisy", 1, 2),
        *sample_tensors(),
    ]
    candidate = [
        floats("zero", 0, 1),
        floats("nan", 1, 2),
        floats("nothing", nan, nan),
        floats("shape", 1, 2, 3),
        floats("lost", 1, 2),
        floats("extra", 1, 2),
        floats("noisy", 1, 2),
        *sample_tensors(),
    ]
    noise = copy.deepcopy(reference)
    noise[6].stored *= 100
    write_reference(tmp_path / "ref.h5", reference)
    write_reference(tmp_path / "noise.h5", noise)
    write_candidate(tmp_path / "run", candidate)
    with h5py.File(tmp_path / "run" / "rank_00000.h5", "a") as file:
        del file["step_000000/output/lost"]
        file["step_000000/output/fc"] = file["step_000000/mb_0000/output/fc"][()] + 1
        file["step_000000/buffer/mask"][0, 0] ^= True
        file["step_000000/main_grad/fc.weight"][0, 0] = 5
    runs = (tmp_path / "ref.h5", tmp_path / "run", "--noise", tmp_path / "noise.h5")
    report = report_of(ttrace, tmp_path, *runs, "--skip", "act")
    # What routers bring about: tests/cli/test_routing_flips.py. The others need a collector that was
    # told to leave something out, or an optimizer that cannot be replayed.
    elsewhere = {"routing_flip", "after_routing_flip", "not_judged", "not_recorded"}
    counts = {name: n for name, n in report["counts"].items() if name not in elsewhere}
    assert all(counts.values()), counts
    text = json.dumps(report)
    assert '"inf"' in text


def test_no_common_tensor(ttrace: Run, tmp_path: Path) -> None:
    write_reference(tmp_path / "ref.h5", sample_tensors()[:1])
    write_candidate(tmp_path / "run", sample_tensors()[1:])
    report = report_of(ttrace, tmp_path, tmp_path / "ref.h5", tmp_path / "run")
    assert report["verdict"] == "inconclusive"


def test_the_schema_refuses_what_is_not_a_report(ttrace: Run, tmp_path: Path) -> None:
    report = report_of(ttrace, tmp_path, TESTDATA / "ref.h5", TESTDATA / "tp2sp_p12")
    for path, value in [
        (("more",), 1),
        (("exit_code",), 0),
        (("why",), "because"),
        (("frontier",), []),
        (("results", 0, "more"), 1),
        (("results", 0, "error"), "a lot"),
        (("results", 0, "outcome"), "missing"),
        (("frontier", 0, "more"), 1),
        (("frontier", 0, "outcome"), "match"),
        (("frontier", 0, "causes", 0, "more"), 1),
        (("counts", "more"), 1),
        (("reference", "ranks"), -1),
    ]:
        changed = copy.deepcopy(report)
        part = changed
        for step in path[:-1]:
            part = part[step]
        part[path[-1]] = value
        assert not VALIDATOR.is_valid(changed), path
