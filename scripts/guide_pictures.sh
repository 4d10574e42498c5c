#!/usr/bin/env bash
# Makes the pictures of the guide lib/torch/docs/diverged.md again, from real bugs in a miniature and
# the pages that ttrace writes of them, in headless Chromium. Takes a minute or two on 2 cores.
#   scripts/guide_pictures.sh [-o FOLDER] [NAME]...
# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

export TTRACE=${TTRACE:-$build/ttrace}
[ -x "$TTRACE" ] || build_program
make_venv
export PYTHONPATH=$root/lib/torch:$root/tests OMP_NUM_THREADS=1
exec "$venv/bin/python" -m page.pictures "$@"
