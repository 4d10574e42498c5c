#!/usr/bin/env bash
# Makes .venv-frameworks, in which tests/frameworks trains with real frameworks, and prints the path
# of its interpreter. Nothing is installed twice; TTRACE_FRAMEWORKS_VENV names another place.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=${TTRACE_FRAMEWORKS_VENV:-$root/.venv-frameworks}
packages=(torch==2.13.0 numpy h5py pytest)
# Megatron-core asks for numpy 1 and for packages that it does not need here.
alone=(megatron-core==0.16.1)

stamp=$venv/ttrace-requirements.txt
wanted="${packages[*]} ${alone[*]}"
if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$wanted" ]; then
  {
    python3 -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "${packages[@]}"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps "${alone[@]}"
  } >&2
  printf '%s\n' "$wanted" >"$stamp"
fi
echo "$venv/bin/python"
