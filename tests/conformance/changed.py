"""A JSON document with one thing in it changed: what schemas and readers must agree about."""

from __future__ import annotations

import copy
from typing import Any

REMOVED = object()


def changed(document: dict, path: tuple, value: Any) -> dict:
    """A copy of `document` with `value` at `path` (keys and indices), or without it if REMOVED."""
    result = copy.deepcopy(document)
    part: Any = result
    for step in path[:-1]:
        part = part[step]
    if value is REMOVED:
        del part[path[-1]]
    else:
        part[path[-1]] = value
    return result
