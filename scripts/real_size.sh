#!/usr/bin/env bash
# Makes and compares traces of models of real size (100 million parameters and more), healthy and
# with a planted bug, and writes tests/power/REAL_SIZE.md.
#   scripts/real_size.sh RAW.jsonl [--only CASE] [--build COMMIT] [--write] [--tiny]
# RAW.jsonl keeps the raw results: a study that is stopped goes on from there; RAW.reports has what
# `ttrace compare` said. A case takes up to ten minutes and 30 GB in TMPDIR, which are given back.
# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

run_study real_size.study "$@"
