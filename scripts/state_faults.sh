#!/usr/bin/env bash
# Plants faults in what lives between the steps of a training (masters, moments, schedules, averages,
# buffers), and writes what `ttrace compare` and `ttrace audit` say to tests/power/STATE.md.
#   scripts/state_faults.sh RAW.jsonl [--only CASE] [--write] [--tiny] [--steps N]
# RAW.jsonl keeps the raw results: a study that is stopped goes on from there; RAW.reports has the
# reports in full. Traces take up to 30 GB in TMPDIR, which are given back.
# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

export TTRACE=${TTRACE:-$build/ttrace}
[ -x "$TTRACE" ] || build_program
python=$("$root/scripts/frameworks_venv.sh")
export PYTHONPATH=$root/lib/torch:$root/tests:$root/tests/frameworks OMP_NUM_THREADS=1
exec "$python" -m real_size.state_study "$@"
