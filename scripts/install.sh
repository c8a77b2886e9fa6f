#!/usr/bin/env bash
# Builds the Python package in release mode and installs it, as `pip install .` does for a user: into .venv, or into the
# environment that is named. maturin is in .venv already, so the build needs no environment of its own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv=${1:-.venv} pip=(-m pip --quiet --disable-pip-version-check)
rm -rf target/wheel
mkdir -p target
# What takes minutes says how far it is; all of the output is in the log, and shown where it fails.
log=target/install.log crates=$(grep -c '^name' Cargo.lock)
count() {
    awk -v all="$crates" '/^ *Compiling /{ if (++n % 40 == 0) { printf "  %d of about %d crates compiled\n", n, all; fflush() } }'
}
if ! PATH="$PWD/.venv/bin:$PATH" .venv/bin/python -m pip --disable-pip-version-check -v wheel --no-build-isolation --no-deps \
    --wheel-dir target/wheel . 2>&1 | tee "$log" | count; then
    tail -n 60 "$log" >&2
    exit 1
fi
"$venv/bin/python" "${pip[@]}" install --force-reinstall --no-deps target/wheel/*.whl
"$venv/bin/python" - <<'P'
import sigbank
print("installed sigbank", getattr(sigbank, "__version__", ""), "from", sigbank.__path__[0].split("/.venv/")[-1])
P
