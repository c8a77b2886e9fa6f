#!/usr/bin/env bash
# Builds the Python package in release mode and installs it into .venv, as `pip install .` does for a user.
# maturin is in .venv already, so the build needs no environment of its own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH="$PWD/.venv/bin:$PATH" .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --force-reinstall --no-deps .
.venv/bin/python - <<'P'
import sigbank
print("installed sigbank", getattr(sigbank, "__version__", ""), "from", sigbank.__path__[0].split("/.venv/")[-1])
P
