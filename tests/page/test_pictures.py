"""The guide shows the pictures that its script makes, and no others."""

from __future__ import annotations

import re

from page.pictures import OUT, PICTURES

GUIDE = OUT.parent / "diverged.md"
MOST_BYTES = 300_000  # of all pictures in the repository


def test_the_guide_shows_the_pictures_that_are_made():
    shown = re.findall(r"!\[[^\]]+\]\(pictures/(\w+)\.png\)", GUIDE.read_text())
    assert sorted(shown) == sorted(picture.name for picture in PICTURES)
    files = list(OUT.iterdir())
    assert sorted(file.name for file in files) == sorted(f"{name}.png" for name in shown)
    assert sum(file.stat().st_size for file in files) < MOST_BYTES
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in files)
