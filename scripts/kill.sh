#!/usr/bin/env bash
# Kills processes at random instants and looks at what is left: kill.sh TIMES WRITERS. Of Sedpack a third of the kills are of a lone
# filler, the others of one process among several; of signal-datasets TIMES rounds are gone through with WRITERS writing processes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
times=${1:?how many times} writers=${2:?how many writers of a signal-dataset}
.venv/bin/python scripts/kill.py $(((times + 2) / 3))
.venv/bin/python scripts/kill_many.py $((times - (times + 2) / 3))
.venv/bin/python scripts/soak_signal.py "$times" --workers "$writers"
