"""manifest.schema.json and the reader agree on what a manifest is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import jsonschema
import jsonschema_rs
import pytest
from support.ttrace_cli import REPOSITORY, TESTDATA

from conformance.changed import REMOVED, changed

from .conftest import Run
from .write_trace import manifest as script_manifest
from .write_trace import sample_tensors

EXAMPLES = sorted(
    path
    for path in (REPOSITORY / "schemas" / "examples").glob("*.json")
    if path.stem not in ("plan", "specification")
)
SCHEMA = json.loads((REPOSITORY / "schemas" / "manifest.schema.json").read_text())
VALIDATOR = jsonschema_rs.Draft202012Validator(SCHEMA)

GOOD = {
    "schema": "ttrace.manifest/2",
    "run": {
        "id": "f00d",
        "model": "m",
        "recorded": {"kinds": ["output"], "modules": ["a"], "steps": [0]},
        "unfinished": [1],
        "noise": {"seed": 1, "epsilon": 1e-7, "at": "a"},
        "plan": {"digest": "0a" * 32, "modules": ["a", "layers.*"]},
        "extra": {"x": [1]},
    },
    "meshes": {"": {"axes": [{"name": "tp", "size": 2}], "ranks": [1, 0]}},
    "tensors": [
        {
            "name": "a",
            "kind": "output",
            "step": 0,
            "microbatch": None,
            "call": 1,
            "copy": 1,
            "dtype": "float32",
            "shape": [4, 2],
            "mesh": "",
            "held_at": {"tp": [0, 1]},
            "placements": {"tp": {"shard": 0, "sizes": [3, 1]}},
            "scale": 0.5,
            "computed_in": "bfloat16",
            "order": 3,
            "position": 0,
            "absent_on": [1],
        },
        {
            "name": "b",
            "kind": "output",
            "step": 0,
            "microbatches": {"shard": 0, "of": [0, 1]},
            "dtype": "float32",
            "shape": [4, 2],
        },
    ],
    "optimizer": [{"step": 0, "type": "adam", "betas": [0.9, 0.95], "updates": 1, "params": ["w"]}],
    "modules": [
        {
            "name": "a",
            "inputs": ["a"],
            "computed_from": [],
            "outputs": ["a", "a[1]"],
            "via": ["AddBackward0"],
            "computed_via": ["MulBackward0"],
        }
    ],
}

TENSOR = ("tensors", 0)
BROKEN: dict[str, tuple[tuple, Any]] = {
    "later version": (("schema",), "ttrace.manifest/3"),
    "earlier version": (("schema",), "ttrace.manifest/1"),
    "recorded kinds without steps": (("run", "recorded", "steps"), REMOVED),
    "a recorded kind that does not exist": (("run", "recorded", "kinds"), ["outputs"]),
    "an unfinished rank as text": (("run", "unfinished"), ["1"]),
    "absent twice on one rank": ((*TENSOR, "absent_on"), [1, 1]),
    "negative position": ((*TENSOR, "position"), -1),
    "no version": (("schema",), REMOVED),
    "no meshes": (("meshes",), REMOVED),
    "no tensors": (("tensors",), REMOVED),
    "unknown member": (("extra",), {}),
    "unknown member of a tensor": ((*TENSOR, "colour"), "red"),
    "no default mesh": (("meshes",), {"x": {"axes": []}}),
    "axis of size 0": (("meshes", "", "axes", 0, "size"), 0),
    "axis without a name": (("meshes", "", "axes", 0, "name"), ""),
    "unknown order of ranks": (("meshes", "", "ranks"), "column-major"),
    "rank at two coordinates": (("meshes", "", "ranks"), [0, 0]),
    "no name": ((*TENSOR, "name"), REMOVED),
    "empty name": ((*TENSOR, "name"), ""),
    "name that leaves the trace": ((*TENSOR, "name"), "a/../../b"),
    "name that is the parent": ((*TENSOR, "name"), ".."),
    "name with a line break": ((*TENSOR, "name"), "a\nb"),
    "name with DEL": ((*TENSOR, "name"), "a\x7f"),
    "name with a C1 control character": ((*TENSOR, "name"), "a\x9b31m"),
    "name that is too long": ((*TENSOR, "name"), "a" * 513),
    "unknown kind": ((*TENSOR, "kind"), "outputs"),
    "negative step": ((*TENSOR, "step"), -1),
    "fractional step": ((*TENSOR, "step"), 0.5),
    "micro-batch as text": ((*TENSOR, "microbatch"), "0"),
    "unknown dtype": ((*TENSOR, "dtype"), "fp32"),
    "negative extent": ((*TENSOR, "shape"), [-4, 2]),
    "shape as text": ((*TENSOR, "shape"), "4x2"),
    "too many dimensions": ((*TENSOR, "shape"), [4, 2] + [1] * 31),
    "unknown placement": ((*TENSOR, "placements", "tp"), "sharded"),
    "placement of nothing": ((*TENSOR, "placements", "tp"), {}),
    "placement of two things": ((*TENSOR, "placements", "tp"), {"shard": 0, "partial": "sum"}),
    "unknown reduction": ((*TENSOR, "placements", "tp"), {"partial": "product"}),
    "unknown order of a shard": ((*TENSOR, "placements", "tp"), {"shard": 0, "order": "zagzig"}),
    "order and sizes": (
        (*TENSOR, "placements", "tp"),
        {"shard": 0, "order": "zigzag", "sizes": [3, 1]},
    ),
    "no segments": ((*TENSOR, "placements", "tp"), {"shard": 0, "segments": []}),
    "segments repeated 0 times": (
        (*TENSOR, "placements", "tp"),
        {"shard": 0, "segments": [2, 2], "repeat": 0},
    ),
    "repeat without segments": ((*TENSOR, "placements", "tp"), {"shard": 0, "repeat": 2}),
    "parts of segments in one list": (
        (*TENSOR, "placements", "tp"),
        {"shard": 0, "segments": [2, 2], "sizes": [1, 1]},
    ),
    "stride of 0": ((*TENSOR, "placements", "tp"), {"shard": 0, "stride": 0}),
    "stride and segments": (
        (*TENSOR, "placements", "tp"),
        {"shard": 0, "stride": 2, "segments": [2, 2]},
    ),
    "flat range of one number": ((*TENSOR, "placements", "tp"), {"flat": [[0], [4, 8]]}),
    "flat range that is negative": ((*TENSOR, "placements", "tp"), {"flat": [[-1, 4], [4, 8]]}),
    "flat by dimension": ((*TENSOR, "placements", "tp"), {"flat": [[0, 4], [4, 8]], "dim": 0}),
    "box without a size": ((*TENSOR, "placements", "tp"), {"boxes": [[[0, 0]], [[0, 1]]]}),
    "box of numbers": ((*TENSOR, "placements", "tp"), {"boxes": [[0, 2], [2, 2]]}),
    "rows without an index": ((*TENSOR, "placements", "tp"), {"rows": {"dim": 0}}),
    "rows by an index of no name": (
        (*TENSOR, "placements", "tp"),
        {"rows": {"dim": 0, "index": ""}},
    ),
    "rows by labels or not": (
        (*TENSOR, "placements", "tp"),
        {"rows": {"dim": 0, "index": "rows", "labels": False}},
    ),
    "rows by a list": ((*TENSOR, "placements", "tp"), {"rows": [0, 1]}),
    "micro-batches as a list": ((*TENSOR, "microbatches"), [0, 1]),
    "the sum of no micro-batch": ((*TENSOR, "microbatches"), {"sum": []}),
    "micro-batches in two manners": ((*TENSOR, "microbatches"), {"sum": [0], "mean": [0]}),
    "micro-batches cut without a list": ((*TENSOR, "microbatches"), {"shard": 0}),
    "one micro-batch and several": (("tensors", 1, "microbatch"), 0),
    "shard of a negative dimension": ((*TENSOR, "placements", "tp"), {"shard": -1}),
    "held nowhere": ((*TENSOR, "held_at"), {"tp": []}),
    "held twice at one place": ((*TENSOR, "held_at"), {"tp": [0, 0]}),
    "scale as text": ((*TENSOR, "scale"), "0.5"),
    "computed in an unknown dtype": ((*TENSOR, "computed_in"), "fp31"),
    "stored in a type to compute in": ((*TENSOR, "dtype"), "tf32"),
    "noise of no size": (("run", "noise", "epsilon"), 0),
    "noise without a seed": (("run", "noise", "seed"), REMOVED),
    "plan without a digest": (("run", "plan", "digest"), REMOVED),
    "plan with half a digest": (("run", "plan", "digest"), "0a" * 16),
    "plan with a digest in capitals": (("run", "plan", "digest"), "0A" * 32),
    "plan with a seed": (("run", "plan", "seed"), 1),
    "operations as text": (("modules", 0, "via"), "AddBackward0"),
    "extra facts that are a list": (("run", "extra"), []),
    "optimizer without a type": (("optimizer", 0, "type"), REMOVED),
    "one beta": (("optimizer", 0, "betas"), [0.9]),
    "half an update": (("optimizer", 0, "updates"), 0.5),
    "module without a name": (("modules", 0, "name"), REMOVED),
    "modules that are an object": (("modules",), {}),
    "inputs as text": (("modules", 0, "inputs"), "a"),
}


def lint(ttrace: Run, folder: Path, text: str) -> tuple[int, str]:
    (folder / "manifest.json").write_text(text)
    done = ttrace("lint", "--manifest-only", folder)
    return done.returncode, done.stdout + done.stderr


def embedded(path: Path) -> str:
    with h5py.File(path) as file:
        return file["manifest"][()].decode()


MANIFESTS = {
    **{path.name: path.read_text for path in EXAMPLES},
    **{
        str(path.relative_to(TESTDATA)): path.read_text for path in TESTDATA.glob("*/manifest.json")
    },
    **{
        str(path.relative_to(TESTDATA)): lambda path=path: embedded(path)
        for path in TESTDATA.rglob("*.h5")
    },
    "the test's own": lambda: json.dumps(GOOD),
    "the script's reference": lambda: json.dumps(script_manifest(sample_tensors(), ranks=1)),
    "the script's run": lambda: json.dumps(script_manifest(sample_tensors(), ranks=2)),
}


# Placements on an axis of two coordinates of a tensor of shape [4, 2].
PLACEMENTS: dict[str, Any] = {
    "replicate": "replicate",
    "shard": {"shard": 1},
    "sizes": {"shard": 0, "sizes": [4, 0]},
    "zigzag": {"shard": 0, "order": "zigzag"},
    "segments": {"shard": 0, "segments": [1, 3]},
    "repeated segments": {"shard": 0, "segments": [1, 1], "repeat": 2},
    "segments with sizes": {"shard": 0, "segments": [1, 3], "sizes": [[1, 0], [1, 2]]},
    "stride": {"shard": 0, "stride": 3},
    "flat": {"flat": [[3, 8], [0, 3]]},
    "an empty flat range": {"flat": [[0, 8], [5, 5]]},
    "boxes": {"boxes": [[[0, 1], [4, 1]], [[0, 0], [4, 1]]]},
    "partial": {"partial": "max"},
    "only": {"only": 1},
}


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert len(MANIFESTS) == 16


@pytest.mark.parametrize("name", sorted(MANIFESTS))
def test_real_manifests_are_accepted_by_both(ttrace: Run, tmp_path: Path, name: str) -> None:
    text = MANIFESTS[name]()
    VALIDATOR.validate(json.loads(text))
    exit_code, said = lint(ttrace, tmp_path, text)
    assert (exit_code, said[:5]) == (0, "CLEAN"), said


@pytest.mark.parametrize("name", PLACEMENTS)
def test_every_placement_is_accepted_by_both(ttrace: Run, tmp_path: Path, name: str) -> None:
    manifest = changed(GOOD, (*TENSOR, "placements", "tp"), PLACEMENTS[name])
    if name == "only":
        del manifest["tensors"][0]["held_at"]
    VALIDATOR.validate(manifest)
    exit_code, said = lint(ttrace, tmp_path, json.dumps(manifest))
    assert (exit_code, said[:5]) == (0, "CLEAN"), said


@pytest.mark.parametrize("name", BROKEN)
def test_broken_manifests_are_refused_by_both(ttrace: Run, tmp_path: Path, name: str) -> None:
    manifest = changed(GOOD, *BROKEN[name])
    assert not VALIDATOR.is_valid(manifest)
    exit_code, said = lint(ttrace, tmp_path, json.dumps(manifest))
    assert exit_code == 2, said
    assert said.startswith(f"ttrace: {tmp_path}/manifest.json: ")
    assert said.count("\n") == 1
