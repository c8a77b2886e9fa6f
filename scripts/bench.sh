#!/usr/bin/env bash
# Every benchmark, beside the reference in the same run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# These slow a current numpy where they are set; a benchmark against numpy runs without them.
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
for bench in benches/bench_*.py; do .venv/bin/python "$bench"; done
TF_CPP_MIN_LOG_LEVEL=3 .venv-tensorflow/bin/python benches/tensorflow_containers.py
