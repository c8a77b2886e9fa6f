#!/usr/bin/env bash
# Kills filling processes at random instants and looks at what is left: kill.sh TIMES.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
.venv/bin/python scripts/kill.py "${1:?how many times}"
