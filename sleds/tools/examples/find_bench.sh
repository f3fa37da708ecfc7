#!/usr/bin/env bash
# What `sleds find -latency` costs a file above a plain walk, beside GNU find.
#
#   find_bench.sh SLEDS [FILES [RUNS]]     100000 files, 7 runs
#
# The medians of runs that take turns, and the difference for each file in microseconds.
set -euo pipefail

sleds=$1
files=${2:-100000}
runs=${3:-7}
tree=$(mktemp -d "${TMPDIR:-/var/tmp}/find-bench.XXXXXX")
trap 'rm -rf "$tree"' EXIT

for folder in $(seq 1 100); do
    mkdir "$tree/$folder"
    seq -f "$tree/$folder/%.0f" 1 $((files / 100))
done | xargs touch
# A page each, so that there is something to ask about.
find "$tree" -type f -print0 | xargs -0 -n 5000 sh -c 'for f; do echo x >"$f"; done' sh

seconds() {
    local start=$EPOCHREALTIME
    "$@" >/dev/null 2>&1
    local end=$EPOCHREALTIME
    echo $((${end/./} - ${start/./}))
}

median() { sort -n | sed -n "$(((runs + 1) / 2))p"; }

plain=() latency=() gnu=()
for _ in $(seq "$runs"); do
    gnu+=("$(seconds find "$tree" -type f)")
    plain+=("$(seconds "$sleds" find "$tree" -type f)")
    latency+=("$(seconds "$sleds" find "$tree" -type f -latency -1000)")
done
g=$(printf '%s\n' "${gnu[@]}" | median)
p=$(printf '%s\n' "${plain[@]}" | median)
l=$(printf '%s\n' "${latency[@]}" | median)
awk -v g="$g" -v p="$p" -v l="$l" -v n="$files" 'BEGIN {
    printf "GNU find %.3f s, sleds find %.3f s, with -latency %.3f s: %.2f us a file more\n",
        g / 1e6, p / 1e6, l / 1e6, (l - p) / n
}'
