#!/usr/bin/env bash
# Builds the Python package in release mode and installs it, as `pip install .` does for a user: into .venv, or into the
# environment that is named. maturin is in .venv already, so the build needs no environment of its own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv=${1:-.venv} pip=(-m pip --quiet --disable-pip-version-check)
rm -rf target/wheel
PATH="$PWD/.venv/bin:$PATH" .venv/bin/python "${pip[@]}" wheel --no-build-isolation --no-deps --wheel-dir target/wheel .
"$venv/bin/python" "${pip[@]}" install --force-reinstall --no-deps target/wheel/*.whl
"$venv/bin/python" - <<'P'
import sigbank
print("installed sigbank", getattr(sigbank, "__version__", ""), "from", sigbank.__path__[0].split("/.venv/")[-1])
P
