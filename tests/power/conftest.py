"""Lets the study find the launchers of tests/frameworks."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "frameworks"))
