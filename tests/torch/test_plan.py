"""Plan files: the schema and the reader agree on what a plan is."""

from __future__ import annotations

import copy
import hashlib
import json

import jsonschema_rs
import pytest
from torch import nn
from trace_reading import SCHEMAS, Trace

import ttrace_torch as tt
from ttrace_torch.rewrite.plan import Values, read_plan

VALIDATOR = jsonschema_rs.Draft202012Validator(
    json.loads((SCHEMAS / "plan.schema.json").read_text(encoding="utf-8"))
)
EXAMPLE = SCHEMAS / "examples" / "plan.json"
GOOD = {
    "schema": "ttrace.plan/1",
    "seed": 2**64 - 1,
    "modules": [
        {"name": "a", "inputs": {"std": 1}, "grad_outputs": [{"index": 2, "mean": -1, "std": 0.5}]},
        {"name": "layers.*", "grad_outputs": {"mean": 0.25, "std": 1e-9}},
    ],
}
FIRST, SECOND = ("modules", 0), ("modules", 1)
REMOVED = object()
BROKEN = {
    "later version": (("schema",), "ttrace.plan/2", "/schema: this is 'ttrace.plan/2'"),
    "no version": (("schema",), REMOVED, 'the top level: "schema" is missing'),
    "no seed": (("seed",), REMOVED, 'the top level: "seed" is missing'),
    "negative seed": (("seed",), -1, "/seed: seed -1 is no integer"),
    "large seed": (("seed",), 2**64, "/seed: seed 18446744073709551616 is no"),
    "true seed": (("seed",), True, "/seed: seed True is no integer"),
    "no modules": (("modules",), REMOVED, 'the top level: "modules" is missing'),
    "empty modules": (("modules",), [], "/modules: expected a list with at least one"),
    "modules as an object": (("modules",), {}, "/modules: expected a list"),
    "unknown key": (("module",), [], "/module: unknown key"),
    "entry that is a name": (FIRST, "a", "/modules/0: expected an object"),
    "no name": ((*FIRST, "name"), REMOVED, '/modules/0: "name" is missing'),
    "name that is a number": ((*FIRST, "name"), 1, "/modules/0/name: expected a string"),
    "name with a slash": ((*FIRST, "name"), "a/b", "/modules/0/name 'a/b' cannot be"),
    "empty name": ((*FIRST, "name"), "", "/modules/0/name '' cannot be recorded"),
    "nothing overwritten": ((*SECOND, "grad_outputs"), REMOVED, '/modules/1: give "inputs"'),
    "unknown key of an entry": ((*FIRST, "input"), {}, "/modules/0/input: unknown key"),
    "no deviation": ((*FIRST, "inputs"), {}, '/modules/0/inputs: "std" is missing'),
    "deviation of 0": ((*FIRST, "inputs", "std"), 0, "/inputs/std: expected a number above 0"),
    "deviation as text": ((*FIRST, "inputs", "std"), "1", "/inputs/std: expected a finite"),
    "mean of nothing": ((*SECOND, "grad_outputs", "mean"), None, "/mean: expected a finite"),
    "true mean": ((*SECOND, "grad_outputs", "mean"), True, "/mean: expected a finite"),
    "unknown key of values": ((*FIRST, "inputs", "var"), 1, "/inputs/var: unknown key"),
    "index for all": ((*FIRST, "inputs", "index"), 0, "/inputs/index: unknown key"),
    "no tensors": ((*FIRST, "grad_outputs"), [], "/grad_outputs: expected a list with"),
    "no index": ((*FIRST, "grad_outputs", 0, "index"), REMOVED, '"index" is missing'),
    "negative index": ((*FIRST, "grad_outputs", 0, "index"), -1, "/0/index: expected a whole"),
    "index as text": ((*FIRST, "grad_outputs", 0, "index"), "0", "/0/index: expected a whole"),
}


def changed(where, value):
    plan = copy.deepcopy(GOOD)
    at = plan
    for member in where[:-1]:
        at = at[member]
    if value is REMOVED:
        del at[where[-1]]
    else:
        at[where[-1]] = value
    return plan


def written(tmp_path, text):
    path = tmp_path / "plan.json"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_plan_is_read(tmp_path):
    VALIDATOR.validate(GOOD)
    plan = read_plan(written(tmp_path, json.dumps(GOOD)))
    first, second = plan.entries
    assert plan.seed == 2**64 - 1
    assert first.inputs == Values(0.0, 1.0) and first.grad_outputs == {2: Values(-1.0, 0.5)}
    assert second.inputs is None and second.grad_outputs == Values(0.25, 1e-9)


@pytest.mark.parametrize("name", BROKEN)
def test_broken_plans_are_refused_by_both(tmp_path, name):
    where, value, said = BROKEN[name]
    plan = changed(where, value)
    assert not VALIDATOR.is_valid(plan)
    with pytest.raises(tt.TraceError) as refused:
        read_plan(written(tmp_path, json.dumps(plan)))
    assert said in str(refused.value) and str(tmp_path / "plan.json") in str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"schema": "ttrace.plan/1", "seed": 1, "seed": 2}', "stands twice in one object"),
        ("{", "cannot be read"),
        (json.dumps(changed((*FIRST, "name"), "layers.*")), "'layers.*' stands twice"),
        (json.dumps(changed((*FIRST, "inputs", "std"), float("inf"))), "Infinity is no JSON"),
        (json.dumps(changed((*FIRST, "inputs", "std"), 10**400)), "expected a finite number"),
        (
            json.dumps(changed((*FIRST, "inputs"), [{"index": 0, "std": 1}] * 2)),
            "/modules/0/inputs/1/index: the index 0 stands twice",
        ),
    ],
    ids=["key twice", "no JSON", "name twice", "infinite", "too large", "index twice"],
)
def test_what_no_schema_can_tell_is_refused_too(tmp_path, text, said):
    with pytest.raises(tt.TraceError, match=said.replace("*", r"\*")):
        read_plan(written(tmp_path, text))


def test_a_plan_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(tt.TraceError, match=r"missing.json: cannot be read"):
        tt.trace(nn.Linear(1, 1), out=tmp_path / "run.h5", plan=tmp_path / "missing.json")


def test_the_digest_of_the_example_is_the_one_of_the_page():
    VALIDATOR.validate(json.loads(EXAMPLE.read_text(encoding="utf-8")))
    page = (SCHEMAS / "plan-v1.md").read_text(encoding="utf-8")
    _, _, end = page.partition("has the canonical text")
    text = next(line.strip() for line in end.splitlines() if line.strip().startswith("{"))
    digest = read_plan(EXAMPLE).digest
    assert hashlib.sha256(text.encode()).hexdigest() == digest
    assert f"the digest `{digest}`" in end
    assert EXAMPLE.read_text().strip() in page


def test_the_digest_is_that_of_what_the_plan_does(tmp_path):
    def digest(plan):
        return read_plan(written(tmp_path, json.dumps(plan))).digest

    known = digest(GOOD)
    assert digest(changed((*FIRST, "inputs"), {"std": 1.0, "mean": 0})) == known
    assert digest(changed((*FIRST, "inputs"), {"std": 1.0000000000000002})) != known
    assert digest(changed(("seed",), 1)) != known
    assert digest(changed((*FIRST, "name"), "b")) != known


def test_the_variable_names_the_plan_where_none_is_given(tmp_path, monkeypatch):
    entry = {"schema": "ttrace.plan/1", "seed": 1, "modules": [{"name": "x", "inputs": {"std": 1}}]}
    monkeypatch.setenv("TTRACE_PLAN", str(written(tmp_path, json.dumps(entry))))
    with pytest.raises(tt.TraceError, match="'x' matches no module"):
        tt.trace(nn.Linear(1, 1), out=tmp_path / "run.h5")
    with pytest.raises(tt.TraceError, match="leave out one of the two"):
        tt.trace(nn.Linear(1, 1), out=tmp_path / "run.h5", perturb=tt.Perturb(1))
    monkeypatch.setenv("TTRACE_PLAN", "")
    tt.trace(nn.Linear(1, 1), out=tmp_path / "run.h5").close()
    assert "plan" not in Trace(tmp_path / "run.h5").manifest["run"]
