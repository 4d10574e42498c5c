#!/usr/bin/env bash
# Trains every architecture that transformers registers in miniature, audits it, healthy and with a
# planted fault, and writes tests/zoo/ZOO.md.
#   scripts/zoo.sh RAW.jsonl [--only KIND/TASK]... [--runs healthy,faulty,bf16] [--sample N]
#               [--again GLOB]... [--write PAGE]
# RAW.jsonl keeps the raw results, each with the commit that it is of: a study that is stopped goes on
# from there, or from a copy of tests/zoo/ROWS.jsonl. Two at a time (--at-once N); a run
# takes some seconds.
# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

run_study zoo.study "$@"
