"""testdata/tiny_gpt, as scripts/make_testdata.sh left it, is what its README says."""

import json
from pathlib import Path

import h5py
import jsonschema_rs
import pytest

from gallery.conftest import NORMS
from gallery.merge import Key, Merged, merge, relative_error

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDER = REPOSITORY / "testdata" / "tiny_gpt"
RUNS = ["tp2sp", "tp2sp_p12"]
ONE_PROCESS = ["ref.h5", "noise1.h5", "noise2.h5", "noise3.h5"]


@pytest.fixture(scope="module")
def reference() -> dict[Key, Merged]:
    return merge(FOLDER / "ref.h5")


def differing(reference: dict[Key, Merged], name: str) -> set[tuple[str, str]]:
    candidate = merge(FOLDER / name)
    assert set(candidate) == set(reference)
    return {
        (key.kind, key.name)
        for key, whole in reference.items()
        if not candidate[key].agree or relative_error(whole.value, candidate[key].value) > 1e-5
    }


@pytest.mark.parametrize("name", [*ONE_PROCESS[1:], "tp2sp"])
def test_healthy_and_noise_runs_are_the_reference(reference: dict[Key, Merged], name: str) -> None:
    assert differing(reference, name) == set()


def test_the_faulty_run_is_p12(reference: dict[Key, Merged]) -> None:
    wrong = {(kind, name) for kind in ("main_grad", "param_after_step") for name in NORMS}
    assert differing(reference, "tp2sp_p12") == wrong | {("grad_norm", "grad_norm")}


@pytest.mark.parametrize("name", [*RUNS, *ONE_PROCESS])
def test_manifests_follow_the_schema(name: str) -> None:
    if name in RUNS:
        manifest = (FOLDER / name / "manifest.json").read_text()
    else:
        with h5py.File(FOLDER / name) as file:
            manifest = file["manifest"][()]
    schema = json.loads((REPOSITORY / "schemas" / "manifest.schema.json").read_text())
    jsonschema_rs.validate(schema, json.loads(manifest))


def test_it_is_small() -> None:
    assert sum(file.stat().st_size for file in FOLDER.rglob("*") if file.is_file()) < 3_000_000
