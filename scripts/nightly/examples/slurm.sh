#!/usr/bin/env bash
#SBATCH --job-name=nightly --nodes=1 --ntasks=1 --gpus-per-node=2 --time=04:00:00
# A night as a Slurm job on one node, where nights lie in a folder that all nodes see:
#   NIGHTS=/shared/nights sbatch scripts/nightly/examples/slurm.sh
# Slurm copies this script away, so it starts from the folder that sbatch was called in.
set -euo pipefail

cd "${SLURM_SUBMIT_DIR:-.}"
exec scripts/nightly/examples/job.sh
