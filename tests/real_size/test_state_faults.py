"""A few tiny cases of scripts/state_faults.sh; the rest take minutes."""

from __future__ import annotations

from pathlib import Path

import pytest
from power.store import Store

from real_size.state_cases import FAULTS, Fault
from real_size.state_study import Studied, right, text


def test_cases_have_names_of_their_own() -> None:
    assert len({fault.id for fault in FAULTS}) == len(FAULTS)


# The number of the fault, and of traced steps: what is lost at a resume, or in each update, shows
# in the first one.
@pytest.mark.parametrize(("number", "steps"), [("03", 1), ("08", 1), ("15", 2)])
def test_a_fault_of_state_is_named_where_it_is(
    number: str, steps: int, python: str, tmp_path: Path
) -> None:
    (fault,) = [one for one in FAULTS if one.number == number]
    store = Store(tmp_path / "raw.jsonl")
    studied = Studied(fault.group, True, tmp_path, store, steps=steps, python=python)
    studied.references()
    healthy = studied.run(f"healthy-{fault.group.name}-{fault.layout}", fault.layout)
    assert [healthy[one]["exit_code"] for one in ("compare", "audit")] == [0, 0], healthy
    said = studied.run(fault.id, fault.layout, fault.name)["compare"]
    assert said["exit_code"] == 1 and right(fault, said), said
    assert _cell(fault) in text(store)


def _cell(fault: Fault) -> str:
    return f"| {fault.number} | {fault.says} |"
