#!/usr/bin/env bash
# Measures the tolerances of `ttrace compare` over a grid of healthy and faulty runs of the miniature
# and of real frameworks, and writes tests/power/RESULTS.md and its picture.
#   scripts/power_study.sh RAW.jsonl [--only FAMILY] [--build COMMIT] [--write]
# RAW.jsonl keeps the raw results: a study that is stopped goes on from there. Takes hours on 2 cores.
# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

export TTRACE=${TTRACE:-$build/ttrace}
[ -x "$TTRACE" ] || build_program
python=$("$root/scripts/frameworks_venv.sh")
"$python" -c 'import matplotlib' 2>/dev/null ||
  "$python" -m pip install --quiet --disable-pip-version-check "$(grep matplotlib "$root/tests/requirements.txt")"
export PYTHONPATH=$root/lib/torch:$root/tests:$root/tests/frameworks OMP_NUM_THREADS=1
exec "$python" -m power.study "$@"
