"""The schema of synthetic traces' specs and the reader agree on what a spec is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from referencing import Registry, Resource
from support.ttrace_cli import REPOSITORY

from conformance.changed import REMOVED, changed

from .conftest import Run
from .test_manifest_schema import PLACEMENTS

SCHEMAS = [
    json.loads((REPOSITORY / "schemas" / f"{name}.schema.json").read_text())
    for name in ("synth", "manifest")
]
REGISTRY = Registry().with_resources(
    (schema["$id"], Resource.from_contents(schema)) for schema in SCHEMAS
)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMAS[0], registry=REGISTRY)

SPEC: dict[str, Any] = {
    "schema": "ttrace.synth/1",
    "seed": 3,
    "meshes": {"": {"axes": [{"name": "tp", "size": 2}, {"name": "pp", "size": 2}]}},
    "tensors": [
        {
            "name": "w{i}",
            "count": 3,
            "kind": "param",
            "step": 1,
            "microbatch": None,
            "call": 0,
            "copy": 0,
            "dtype": "bfloat16",
            "shape": [8, 6],
            "mesh": "",
            "held_at": {"tp": [0, 1]},
            "placements": {"tp": {"shard": 0}},
            "stages": "pp",
            "scale": 0.5,
            "computed_in": "float32",
            "mean": -1,
            "std": 0.5,
            "chunk": [2, 3],
            "deflate": 0,
            "shuffle": True,
            "sparse": False,
        },
        {"name": "x", "kind": "output", "dtype": "int8", "shape": []},
    ],
}
GROUP = ("tensors", 0)

BROKEN: dict[str, tuple[tuple, Any]] = {
    "later version": (("schema",), "ttrace.synth/2"),
    "no version": (("schema",), REMOVED),
    "no tensors": (("tensors",), REMOVED),
    "an empty list of tensors": (("tensors",), []),
    "negative seed": (("seed",), -1),
    "unknown member": (("noise",), 1),
    "unknown member of a group": ((*GROUP, "below"), 7),
    "no name": ((*GROUP, "name"), REMOVED),
    "no kind": ((*GROUP, "kind"), REMOVED),
    "unknown kind": ((*GROUP, "kind"), "params"),
    "no dtype": ((*GROUP, "dtype"), REMOVED),
    "unknown dtype": ((*GROUP, "dtype"), "bf16"),
    "no shape": ((*GROUP, "shape"), REMOVED),
    "shape as text": ((*GROUP, "shape"), "8x6"),
    "too many dimensions": ((*GROUP, "shape"), [8, 6] + [1] * 31),
    "no tensor of a group": ((*GROUP, "count"), 0),
    "too many tensors": ((*GROUP, "count"), 2**24 + 1),
    "count as text": ((*GROUP, "count"), "3"),
    "negative step": ((*GROUP, "step"), -1),
    "micro-batch as text": ((*GROUP, "microbatch"), "0"),
    "several micro-batches": ((*GROUP, "microbatches"), {"sum": [0, 1]}),
    "held twice at one place": ((*GROUP, "held_at"), {"tp": [0, 0]}),
    "unknown placement": ((*GROUP, "placements", "tp"), "sharded"),
    "stages of two axes": ((*GROUP, "stages"), ["pp", "tp"]),
    "scale of 0": ((*GROUP, "scale"), 0),
    "mean of nothing": ((*GROUP, "mean"), None),
    "negative deviation": ((*GROUP, "std"), -0.5),
    "chunk without elements": ((*GROUP, "chunk"), [2, 0]),
    "chunk that is a number": ((*GROUP, "chunk"), 64),
    "unknown level": ((*GROUP, "deflate"), 10),
    "shuffle as number": ((*GROUP, "shuffle"), 1),
    "sparse as text": ((*GROUP, "sparse"), "yes"),
}


def read(ttrace: Run, folder: Path, spec: dict) -> tuple[int, str]:
    (folder / "spec.json").write_text(json.dumps(spec))
    done = ttrace("synth", "-o", folder / "run", "--spec", folder / "spec.json", "--manifest-only")
    return done.returncode, done.stdout + done.stderr


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[0])


def test_a_good_spec_is_accepted_by_both(ttrace: Run, tmp_path: Path) -> None:
    VALIDATOR.validate(SPEC)
    exit_code, said = read(ttrace, tmp_path, SPEC)
    assert (exit_code, said[:16]) == (0, "WROTE  4 tensors"), said


def test_the_spec_of_the_page_is_accepted_by_both(ttrace: Run, tmp_path: Path) -> None:
    page = (REPOSITORY / "schemas" / "synth-v1.md").read_text()
    [block] = [block.split("```")[0] for block in page.split("```json\n")[1:]]
    VALIDATOR.validate(json.loads(block))
    exit_code, said = read(ttrace, tmp_path, json.loads(block))
    assert (exit_code, said[:17]) == (0, "WROTE  48 tensors"), said


@pytest.mark.parametrize("name", PLACEMENTS)
def test_every_placement_is_known_to_both(ttrace: Run, tmp_path: Path, name: str) -> None:
    spec = changed(SPEC, (*GROUP, "placements", "tp"), PLACEMENTS[name])
    spec["tensors"][0]["shape"] = [4, 2]
    del spec["tensors"][0]["held_at"]
    VALIDATOR.validate(spec)
    exit_code, said = read(ttrace, tmp_path, spec)
    # Whether the numbers fit this tensor is another question.
    assert exit_code == 0 or "unknown" not in said, said


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_spec_is_refused_by_both(ttrace: Run, tmp_path: Path, name: str) -> None:
    spec = changed(SPEC, *BROKEN[name])
    assert not VALIDATOR.is_valid(spec)
    exit_code, said = read(ttrace, tmp_path, spec)
    assert exit_code == 2, said
    assert said.startswith("ttrace: "), said
    assert said.count("\n") == 1
    assert not (tmp_path / "run").exists()
