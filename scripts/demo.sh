#!/usr/bin/env bash
# From real recordings to a checked dataset, its speed beside the reference package's, and a picture. Everything made goes
# to demo/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
sigbank=.venv/bin/sigbank
bold='' plain=''
[ -t 1 ] && bold=$'\033[1m' plain=$'\033[0m'
say() { printf '\n%s$ sigbank %s%s\n' "$bold" "$*" "$plain"; }
run() { say "$@"; "$sigbank" "$@"; }

echo "building sigbank (release; the first time takes some minutes)"
scripts/install.sh
scripts/recordings.sh
rm -rf demo/dataset
mkdir -p demo
if ls .cache/recordings/*.npy >/dev/null 2>&1; then
    cut=(--rows)
else
    # Half of the samples are mono, some have another rate, and many are shorter than a window.
    cut=(--window 16384 --hop 8192 --pad --mono --mixed-rates)
fi
run pack .cache/recordings demo/dataset "${cut[@]}" --split train=0.8,test=0.1,holdout=0.1 --seed 1
run check demo/dataset
run info demo/dataset
run show demo/dataset 100 --width 100
printf '\n'
.venv/bin/python scripts/demo.py demo/dataset demo/windows.png
