"""What a tracer complains of. It never throws inside a training loop."""

from __future__ import annotations

import re
from contextlib import contextmanager


@contextmanager
def complains(tracer, match):
    """Checks that the tracer has a new complaint, which matches, when the body ends."""
    before = len(tracer.incomplete)
    yield
    new = tracer.incomplete[before:]
    assert any(re.search(match, text) for text in new), new
