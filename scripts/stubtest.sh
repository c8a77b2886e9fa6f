#!/usr/bin/env bash
# Compares the type stubs with the installed module.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
allow=()
[ -f python/stubtest-allowlist.txt ] && allow=(--allowlist "$PWD/python/stubtest-allowlist.txt")
stubtest="$PWD/.venv/bin/stubtest"
# Away from the source tree, so that it is the installed package that is looked at.
cd "$(mktemp -d)"
"$stubtest" sigbank --concise "${allow[@]}"
