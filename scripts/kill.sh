#!/usr/bin/env bash
# Kills writing processes at random instants and looks at what is left: kill.sh TIMES. A third of the kills are of a lone filler,
# the others of one process among several.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
times=${1:?how many times}
.venv/bin/python scripts/kill.py $(((times + 2) / 3))
.venv/bin/python scripts/kill_many.py $((times - (times + 2) / 3))
