"""Makes the tree that the sdist is packed from: the sources of program and collector, with
pyproject.toml at its root.

    python scripts/wheel/stage.py FOLDER
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "lib" / "torch" / "build_support"))
import wheel_metadata  # noqa: E402

STAGED = ["CMakeLists.txt", "LICENSE", "cmake", "lib", "apps", "testdata/demo"]
# What pyproject.toml says of paths: in lib/torch, and at the root of the tree.
PATHS = [
    ('readme = "README.md"', 'readme = "lib/torch/README.md"'),
    ('path = "build_support"', 'path = "lib/torch/build_support"'),
    ('build-dir = "../../build-pip', 'build-dir = "build-pip'),
    ('cmake.source-dir = "../.."', 'cmake.source-dir = "."'),
    ('wheel.packages = ["ttrace_torch"]', 'wheel.packages = ["lib/torch/ttrace_torch"]'),
    (
        '["ttrace_torch", "ttrace_command"]',
        '["lib/torch/ttrace_torch", "lib/torch/ttrace_command"]',
    ),
    ("pip install ./lib/torch", "pip install ttrace_torch-*.tar.gz"),
]


def stage(folder: Path) -> None:
    """Copies what git tracks or would track; `folder` must not exist."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *STAGED],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        source = ROOT / name
        if source.exists():  # not one that is deleted but not yet committed
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    settings = folder / "lib" / "torch" / "pyproject.toml"
    text = settings.read_text()
    for here, there in PATHS:
        if text.count(here) != 1:
            sys.exit(f"lib/torch/pyproject.toml has {here!r} {text.count(here)} times, not once")
        text = text.replace(here, there)
    (folder / "pyproject.toml").write_text(text)
    settings.unlink()
    said = folder / "lib" / "torch" / "build_support" / wheel_metadata.SAID
    said.write_text(wheel_metadata.local_version() + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    stage(Path(sys.argv[1]))
