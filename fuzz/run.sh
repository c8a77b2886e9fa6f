#!/usr/bin/env bash
# Runs one fuzz target: run.sh TARGET SECONDS.
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/../scripts/fuzz.sh" "${2:?seconds}" "${1:?target}"
