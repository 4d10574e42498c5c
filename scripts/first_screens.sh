#!/usr/bin/env bash
# The first screens of fifty faulty runs, for readers who know nothing else, and the grades of what
# they answered.
#   scripts/first_screens.sh make FOLDER KEY [--seed N] [--only CASE]...
#   scripts/first_screens.sh grade ANSWERS KEY
# FOLDER gets NN.txt and the readers' instructions; KEY is what is right. Takes some minutes on 2 cores.
# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

export TTRACE=${TTRACE:-$build/ttrace}
[ -x "$TTRACE" ] || build_program
make_venv
export PYTHONPATH=$root/lib/torch:$root/tests OMP_NUM_THREADS=1
exec "$venv/bin/python" -m screens.study "$@"
