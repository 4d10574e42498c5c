#!/usr/bin/env bash
# Compares a real pair of traces as a Slurm array on this machine alone, merges the parts, and
# checks that the report is that of one process. Needs root, slurm-wlm and munge (Debian), and a
# built ttrace. Starts its own daemons under a folder of its own, and ends them.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
ttrace=$(realpath "${TTRACE:-${TTRACE_BUILD_DIR:-$root/build}/ttrace}")
parts=${1:-8}
pair=("$root/testdata/tiny_gpt/ref.h5" "$root/testdata/tiny_gpt/tp2sp_p12")

for tool in munged slurmctld slurmd sbatch; do
  command -v "$tool" >/dev/null || {
    echo "$tool is missing: apt-get install slurm-wlm munge" >&2
    exit 2
  }
done
[ "$(id -u)" = 0 ] || { echo "slurmd needs root" >&2; exit 2; }

work=$(mktemp -d /tmp/try_slurm.XXXXXX)
daemons=()
finish() {
  for daemon in "${daemons[@]}"; do kill "$daemon" 2>/dev/null || true; done
  wait
  rm -rf "$work"
}
trap finish EXIT

# munge wants nobody else to be able to write where its key and socket lie.
chmod 755 "$work"
mkdir -p "$work"/{munge,state,spool,log}
dd if=/dev/urandom of="$work/munge/key" bs=1024 count=1 status=none
chmod 700 "$work/munge/key" && chmod 711 "$work/munge"
munged --foreground --force --key-file "$work/munge/key" --socket "$work/munge/socket" \
  --pid-file "$work/munge/pid" --seed-file "$work/munge/seed" >"$work/log/munged" 2>&1 &
daemons+=($!)

cat >"$work/slurm.conf" <<CONF
ClusterName=try
SlurmctldHost=$(hostname -s)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge/socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SlurmctldPort=16817
SlurmdPort=16818
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
SlurmctldLogFile=$work/log/slurmctld
SlurmdLogFile=$work/log/slurmd
NodeName=$(hostname -s) NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF=$work/slurm.conf
slurmctld -D -f "$SLURM_CONF" >/dev/null 2>&1 &
daemons+=($!)
slurmd -D -f "$SLURM_CONF" >/dev/null 2>&1 &
daemons+=($!)
for _ in $(seq 100); do
  sinfo -h -o %T 2>/dev/null | grep -q idle && break
  sleep 0.3
done
sinfo || { tail -n 5 "$work"/log/* >&2; exit 1; }

cd "$work"
PATH=$(dirname "$ttrace"):$PATH
echo "+ sbatch --array=1-$parts --wrap 'ttrace compare REF RUN --part \$SLURM_ARRAY_TASK_ID/$parts ...'"
job=$(sbatch --parsable --array="1-$parts" --wrap \
  "ttrace compare ${pair[*]} --part \$SLURM_ARRAY_TASK_ID/$parts --json part\$SLURM_ARRAY_TASK_ID.json")
# A part that found something exits with 1, as compare does: afterany, not afterok.
merge=$(sbatch --parsable --dependency="afterany:$job" --output=merged.txt --wrap \
  'ttrace report merge part?*.json --json merged.json')
squeue
for _ in $(seq 400); do
  [ -z "$(squeue -h)" ] && break
  sleep 0.3
done
echo "array job $job, merge job $merge"
head -n 4 merged.txt

"$ttrace" compare "${pair[@]}" --json whole.json >/dev/null || true
diff <(grep -v '^  "environment"' whole.json) <(grep -v '^  "environment"' merged.json)
echo "the merged report is that of one process"
