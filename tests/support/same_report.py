"""What two comparisons of the same traces must agree in: all but the environment."""

from __future__ import annotations

import re
from pathlib import Path


def json_but_environment(path: Path) -> str:
    lines = path.read_text().splitlines()
    kept = [line for line in lines if not line.startswith('  "environment": ')]
    assert len(kept) == len(lines) - 1, path
    return "\n".join(kept)


def text_but_environment(text: str) -> str:
    # The line may have been folded at any of its spaces.
    changed, count = re.subn(r"\s·\s+cpu\s[^()]*?\s(in|·)\s+[0-9.]+\s+s\n", "\n", text)
    assert count == 1, text
    return changed
