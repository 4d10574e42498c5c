#!/usr/bin/env bash
# One night: makes the reference once, a candidate for each layout, compares them, explains what
# diverged, and keeps the pages of the last nights. Says what is new, and sends it.
#
#   night.sh [OPTIONS] --reference 'COMMAND' --layout NAME='COMMAND' [--layout NAME='COMMAND' ...]
#
#   --out FOLDER     where nights are kept (default: nights)
#   --keep N         how many (default: 14)
#   --noise N        noise runs of the reference (default: 3)
#   --known FILE     differences that are known (repeatable)
#   --require KINDS  kinds that must have been checked, as in loss,main_grad
#   --send COMMAND   gets what is new on its input; is not called where nothing is
#   --limit TIME     most time for each job, as timeout(1) takes it (default: 1h)
#   --ttrace FILE    the program (default: ttrace)
#
# The commands run in bash. The job calls ttrace_torch.trace() without out=: TTRACE_OUT says where
# its trace goes, TTRACE_NOISE makes a noise run, TTRACE_SPECIFICATION asks for the specification.
#
# Exit codes, the worst of all layouts: 0 nothing new and nothing wrong that is not known, 1 wrong,
# 2 a job failed or something cannot be read, 3 too little was checked.
set -euo pipefail

usage() {
  sed -n '2,21s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
}

fail() {
  printf 'night.sh: %s\n' "$1" >&2
  exit 2
}

out=nights keep=14 noise=3 send='' limit=1h ttrace=ttrace reference=''
names=() commands=() policy=() known=()
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage && exit 0 ;;
  esac
  [ $# -ge 2 ] || fail "$1 needs a value; night.sh --help lists what there is"
  case $1 in
    --reference) reference=$2 ;;
    --layout)
      [[ $2 =~ ^[A-Za-z0-9._+-]+=. ]] || fail "--layout $2: is not NAME='COMMAND'"
      names+=("${2%%=*}")
      commands+=("${2#*=}")
      ;;
    --out) out=$2 ;;
    --keep) keep=$2 ;;
    --noise) noise=$2 ;;
    --known) known+=(--known "$(realpath -- "$2")") ;;
    --require) policy+=(--require "$2") ;;
    --send) send=$2 ;;
    --limit) limit=$2 ;;
    --ttrace) ttrace=$2 ;;
    *) fail "$1 is no option; night.sh --help lists them" ;;
  esac
  shift 2
done
[ -n "$reference" ] || fail "--reference 'COMMAND' is missing"
[ ${#names[@]} -gt 0 ] || fail "--layout NAME='COMMAND' is missing"
[[ $keep =~ ^[1-9][0-9]*$ ]] || fail "--keep $keep: is not a number of nights"
[[ $noise =~ ^[0-9]+$ ]] || fail "--noise $noise: is not a number of runs"
command -v "$ttrace" >/dev/null || fail "$ttrace: there is no such program; name it with --ttrace"

mkdir -p "$out"
out=$(realpath -- "$out")
exec 9>"$out/.lock"
flock -n 9 || fail "$out: another night is at work there"
last=$(find "$out" -mindepth 1 -maxdepth 1 -type d -name '20*' | sort | tail -n 1)
night=$out/$(date -u +%Y-%m-%dT%H%M%SZ)
mkdir "$night" || fail "$night: is there already"
printf 'night %s\n' "$night"

worst=0
# Failed jobs outrank what is wrong, and that what was not checked.
worsen() {
  case $1/$worst in
    */2 | 0/* | 3/1) ;;
    *) worst=$1 ;;
  esac
}

# job LOG COMMAND VARIABLE=VALUE...: runs a training job; its trace is what counts.
job() {
  local log=$night/$1.log command=$2 code=0
  shift 2
  env "$@" timeout --kill-after=10 "$limit" bash -c "$command" >"$log" 2>&1 9>&- || code=$?
  [ "$code" = 0 ] && return
  printf '%s: the job ended with %s; the end of its log:\n' "${log##*/}" "$code" >&2
  tail -n 5 -- "$log" >&2
  return 2
}

noise_runs=()
job reference "$reference" TTRACE_OUT="$night/ref.h5" \
  TTRACE_SPECIFICATION="$night/specification.json" || fail "the reference failed"
for ((i = 1; i <= noise; ++i)); do
  job "noise$i" "$reference" TTRACE_OUT="$night/noise$i.h5" TTRACE_NOISE="$i" ||
    fail "a noise run failed"
  noise_runs+=("$night/noise$i.h5")
done
judged_by=()
[ ${#noise_runs[@]} -eq 0 ] || judged_by=(--noise "${noise_runs[@]}")

# judge NAME: compares the layout with the reference; what diverged is explained.
judge() {
  local name=$1 code=0 at=$night/$1
  local files=(--json "$at.json" --html "$at.html" --markdown "$at.md" --junit "$at.xml")
  "$ttrace" compare "$night/ref.h5" "$at" "${judged_by[@]}" "${known[@]}" "${policy[@]}" \
    "${files[@]}" --format line >"$at.txt" 2>"$at.err" || code=$?
  if [ "$code" = 1 ]; then
    local specification=()
    [ ! -e "$night/specification.json" ] ||
      specification=(--specification "$night/specification.json")
    "$ttrace" localize "$night/ref.h5" "$at" "${specification[@]}" --report "$at.json" \
      "${known[@]}" >"$at.localize.txt" 2>&1 || true
  fi
  [ -s "$at.txt" ] || { tail -n 1 "$at.err" >"$at.txt"; code=2; }
  printf '%-12s %s' "$name" "$(cat "$at.txt")"
  printf '\n'
  return "$code"
}

# news NAME CODE: a line where the layout is not as the last night left it.
news() {
  local name=$1 code=$2 at=$night/$1 line diff_code=0
  if [ "$code" = 2 ] || [ -z "$last" ] || [ ! -e "$last/$name.json" ]; then
    [ "$code" = 0 ] || printf '%s: %s\n' "$name" "$(cat "$at.txt")"
    return
  fi
  line=$("$ttrace" report diff "$last/$name.json" "$at.json" --format line \
    --json "$at.diff.json" 2>&1) || diff_code=$?
  printf '%-12s %s\n' "$name" "$line" >>"$night/diff.txt"
  [ "$diff_code" = 0 ] || printf '%s: %s\n' "$name" "$line"
}

: >"$night/news.txt"
for i in "${!names[@]}"; do
  name=${names[$i]} code=0
  if job "$name" "${commands[$i]}" TTRACE_OUT="$night/$name"; then
    judge "$name" || code=$?
  else
    code=2
    printf 'the job failed: %s\n' "$(tail -n 1 "$night/$name.log")" >"$night/$name.txt"
  fi
  worsen "$code"
  news "$name" "$code" >>"$night/news.txt"
done

# Traces are large and can be made again; reports are what nights are compared by.
rm -rf "$night"/ref.h5 "$night"/noise*.h5
for name in "${names[@]}"; do rm -rf "${night:?}/$name"; done
find "$out" -mindepth 1 -maxdepth 1 -type d -name '20*' | sort | head -n "-$keep" |
  while read -r old; do rm -rf -- "$old"; done

if [ -s "$night/news.txt" ]; then
  printf 'new since %s:\n' "${last:-the beginning}"
  cat "$night/news.txt"
  if [ -n "$send" ]; then
    bash -c "$send" <"$night/news.txt" 9>&- || fail "--send: the command failed"
  fi
else
  printf 'nothing new\n'
fi
exit "$worst"
