#!/usr/bin/env bash
# Runs make targets one after the other and ends with the minutes that each one took. A failed one does not keep the others
# from running, so that one run tells all; the exit code tells whether any failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
table='' failed=() all=$SECONDS
minutes() { awk "BEGIN { printf \"%.1f\", $1 / 60 }"; }
for stage in "$@"; do
    printf '\n=== %s ===\n' "$stage"
    start=$SECONDS
    mark=
    make --no-print-directory "$stage" || { failed+=("$stage"); mark=' FAILED'; }
    table+=$(printf '  %-14s %5s%s' "$stage" "$(minutes $((SECONDS - start)))" "$mark")$'\n'
done
printf '\nminutes per stage\n%s  %-14s %5s\n' "$table" all "$(minutes $((SECONDS - all)))"
if [ ${#failed[@]} -gt 0 ]; then
    printf 'FAILED, again with: make'
    printf ' %s' "${failed[@]}"
    printf '\n'
    exit 1
fi
