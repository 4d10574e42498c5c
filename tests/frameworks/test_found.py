"""The bugs that were found in released packages: each script fails once its bug is mended.

The packages are pinned, so that those that compile, or train several models, are left to
scripts/frameworks.sh.
"""

from __future__ import annotations

import subprocess

import grid
import pytest
from support.python_runs import run_python
from support.ttrace_cli import REPOSITORY

FOUND = sorted((REPOSITORY / "tests" / "frameworks" / "found").glob("*.py"))
SLOW = {"torch_compiled_tensor_parallel", "transformers_grad_all_reduce"}
SLOW |= {"transformers_grad_not_summed", "transformers_saved_experts"}
# What a script returns where the machine cannot show its bug.
NOT_HERE = 77
RUN = grid.cases(
    "bugs found",
    {path.stem: path for path in FOUND if path.stem not in SLOW},
    {path.stem: path for path in FOUND if path.stem in SLOW},
)


# What scripts/frameworks_venv.sh does not install: the beginning of a script's name -> the package.
OTHERS = {
    "megatron_fsdp": "megatron-fsdp==0.6.1",
    "megatron_latent": "megatron-core==0.19.2",
}
IS_THERE = "import importlib.metadata as m, sys; sys.exit(m.version(sys.argv[1]) != sys.argv[2])"


def skip_without(python, script):
    for beginning, package in OTHERS.items():
        if script.name.startswith(beginning):
            asked = [python, "-c", IS_THERE, *package.split("==")]
            if subprocess.run(asked, capture_output=True).returncode:
                pytest.skip(f"{python} -m pip install --no-deps {package}")


@pytest.mark.parametrize("name", RUN)
def test_the_bug_is_still_there(python, name):
    skip_without(python, RUN[name])
    command = [RUN[name]]
    done = run_python(command, python=python, timeout=900, environment={"OMP_NUM_THREADS": "1"})
    if done.returncode == NOT_HERE:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_bug_stands_in_the_table():
    table = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert SLOW < {path.stem for path in FOUND}
    for path in FOUND:
        assert f"tests/frameworks/found/{path.name}" in table
