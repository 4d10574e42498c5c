"""No way of lying to `ttrace audit` makes a wrong run hold."""

from __future__ import annotations

import os
from pathlib import Path

import audit_lies
import lies_of_updates
import mechanisms
import pytest
from faults_of_step import Fault
from small_step import step
from support.ttrace_cli import DIVERGED, INCONCLUSIVE, MATCH
from variants import Variant

LONG = os.environ.get("TTRACE_LONG") == "1"
MECHANISMS = mechanisms.mechanisms()
SAID = mechanisms.said()


def variants(lies: dict[str, list[Variant]]) -> list[object]:
    """All with TTRACE_LONG=1, else the first and the last of each mechanism."""
    found = []
    for mechanism, of in lies.items():
        chosen = of if LONG or len(of) < 3 else [of[0], of[-1]]
        found += [pytest.param(one, id=f"{mechanism}: {one.name}") for one in chosen]
    return found


def faults() -> list[object]:
    named: dict[str, Fault] = {}
    for of in (*MECHANISMS.values(), *SAID.values()):
        named |= {one.fault.name: one.fault for one in of if one.fault.changes}
    return [pytest.param(fault, id=name) for name, fault in named.items()]


def test_there_are_many_ways_to_lie() -> None:
    assert len(MECHANISMS) + len(SAID) >= 40
    assert all(MECHANISMS.values())
    assert all(SAID.values())


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("mask", [0.0, -1e4])
def test_a_healthy_step_holds(tmp_path: Path, dtype: str, mask: float) -> None:
    told = audit_lies.audited(step(dtype, mask), tmp_path)
    assert told.exit_code == MATCH, told
    assert told.first_line.startswith("HOLDS  75 of 75 tensors"), told


@pytest.mark.parametrize(
    ("flags", "exit_code"),
    [
        (("--kind", "output", "loss", "param_grad", "main_grad"), MATCH),
        (("--only", "layers.2*", "--kind", "output", "param_grad"), MATCH),
        (("--only", "layers.2*"), INCONCLUSIVE),
    ],
)
def test_a_person_may_leave_updates_out(
    tmp_path: Path, flags: tuple[str, ...], exit_code: int
) -> None:
    run = step()
    lies_of_updates.groups(type="muon")(run)
    told = audit_lies.audited(run, tmp_path, *flags)
    assert told.exit_code == exit_code, told
    if exit_code == MATCH:
        assert " selected tensors follow from " in told.first_line
    else:
        assert "the updates of 2 of 2 parameters were not judged: " in told.first_line


def test_updates_of_a_few_parameters_may_be_unjudged(tmp_path: Path) -> None:
    run = step()
    group = run.manifest["optimizer"][0]
    group["params"].remove("head.bias")
    run.manifest["optimizer"].append({**group, "type": "muon", "params": ["head.bias"]})
    told = audit_lies.audited(run, tmp_path)
    assert told.exit_code == MATCH, told
    assert "; the updates of 1 of 13 parameters were not judged" in told.first_line


@pytest.mark.parametrize("fault", faults())
def test_without_a_lie_the_fault_is_found(tmp_path: Path, fault: Fault) -> None:
    assert audit_lies.honest(fault, tmp_path).exit_code == DIVERGED


@pytest.mark.parametrize("variant", variants(MECHANISMS))
def test_a_lie_does_not_make_it_hold(tmp_path: Path, variant: Variant) -> None:
    told = audit_lies.tried(variant, tmp_path)
    assert told.exit_code in (1, 3), told


@pytest.mark.parametrize("variant", variants(SAID))
def test_what_was_not_checked_is_said(tmp_path: Path, variant: Variant) -> None:
    told = audit_lies.tried(variant, tmp_path)
    assert told.exit_code == MATCH, told
    assert variant.name.split(",")[0] in told.first_line, told
    assert len(told.first_line) <= 200
