#!/usr/bin/env bash
# Holds two builds of ttrace against each other: the same traces, healthy, faulty and damaged, must
# give the same exit codes, reports (texts for people left out) and files. For changes of the code
# that must not change an answer.
#   scripts/same_answers.sh BEFORE AFTER [--random N] [--damaged N] [--gallery N] [--relative X]
#     [--texts]
# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

make_venv
build_synth
export PYTHONPATH=$root/lib/torch:$root/tests OMP_NUM_THREADS=1
exec "$venv/bin/python" "$root/scripts/same_answers.py" "$@"
