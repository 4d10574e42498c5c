"""Lets these tests import what those of the collector share."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "torch"))
