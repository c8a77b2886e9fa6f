#!/usr/bin/env bash
# Runs make targets one after the other, stops at the first that fails, and ends with the minutes that each one took.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
names=() minutes=() status=0 all=$SECONDS
for stage in "$@"; do
    printf '\n=== %s ===\n' "$stage"
    start=$SECONDS
    make --no-print-directory "$stage"
    status=$?
    names+=("$stage")
    minutes+=("$(awk "BEGIN { printf \"%.1f\", ($SECONDS - $start) / 60 }")")
    [ $status = 0 ] || break
done
printf '\nminutes per stage\n'
for i in "${!names[@]}"; do printf '  %-14s %5s\n' "${names[$i]}" "${minutes[$i]}"; done
printf '  %-14s %5s\n' all "$(awk "BEGIN { printf \"%.1f\", ($SECONDS - $all) / 60 }")"
if [ $status != 0 ]; then printf 'FAILED: %s (again with: make %s)\n' "${names[-1]}" "${names[-1]}"; fi
exit $status
