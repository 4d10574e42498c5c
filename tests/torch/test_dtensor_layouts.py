"""DTensors of every layout, cut by PyTorch on every rank: the trace gives the whole tensor back."""

from __future__ import annotations

import numpy as np
import pytest
from merging import merged
from random_dtensors import random_cases, write_trace
from support.long_cases import chosen
from trace_reading import Trace

MESHES = chosen(
    "meshes of random DTensors",
    [{"pp": 3, "dp": 2, "tp": 2}, {"dp": 2, "tp": 3}, {"tp": 4}],
    [{"dp": 2, "cp": 2, "tp": 4}, {"pp": 2, "tp": 5}],
)
CASES = 70


@pytest.mark.parametrize("axes", MESHES, ids=lambda axes: "x".join(map(str, axes.values())))
def test_random_dtensors(tmp_path, axes):
    cases = random_cases(axes, CASES, seed=len(axes))
    write_trace(tmp_path / "run", axes, cases)
    trace = Trace(tmp_path / "run")
    trace.check_complete()
    whole = merged(trace)
    assert set(trace.names("scalar")) == {case.name for case in cases}
    for case in cases:
        for reading in (trace, whole):
            value = reading.value("scalar", case.name)
            np.testing.assert_array_equal(value, case.whole.numpy(), err_msg=str(case))
