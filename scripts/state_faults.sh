#!/usr/bin/env bash
# Plants faults in what lives between the steps of a training (masters, moments, schedules, averages,
# buffers), and writes what `ttrace compare` and `ttrace audit` say to tests/power/STATE.md.
#   scripts/state_faults.sh RAW.jsonl [--only CASE] [--write] [--tiny] [--steps N]
# RAW.jsonl keeps the raw results: a study that is stopped goes on from there; RAW.reports has the
# reports in full. Traces take up to 30 GB in TMPDIR, which are given back.
# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

run_study real_size.state_study "$@"
