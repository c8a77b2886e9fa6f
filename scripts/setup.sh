#!/usr/bin/env bash
# Makes an environment with one set of requirements: setup.sh demo|test, in .venv, or setup.sh tensorflow, in .venv-tensorflow,
# because TensorFlow is large and asks for versions of its own. Run again only when they changed (see Makefile).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
set_name=${1:?which requirements: demo, test or tensorflow}
venv=.venv
if [ "$set_name" = tensorflow ]; then venv=.venv-tensorflow; fi

# For the test that reads data sets in GNU Octave, which is skipped where there is none.
if [ "$set_name" = test ] && ! command -v octave >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends octave; } >/dev/null 2>&1 \
        || echo "note: GNU Octave could not be installed: the test that needs it will be skipped" >&2
fi

# What only a package manager can bring: a linker for Rust. Without root the build itself says what is missing.
if ! command -v cc >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends gcc g++ libc6-dev || true
fi
command -v cargo >/dev/null || { echo "error: cargo is not found: install Rust 1.90 or newer" >&2; exit 1; }

python=
for candidate in "${PYTHON:-}" python3.11 python3 python; do
    [ -n "$candidate" ] || continue
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$candidate; break; fi
done
[ -n "$python" ] || { echo "error: no Python 3.11 or newer is found: install one, or name it: make PYTHON=/path/to/python" >&2; exit 1; }

if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    rm -rf "$venv"
    if ! "$python" -m venv "$venv"; then
        # Debian keeps ensurepip in a package of its own.
        [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || exit 1
        rm -rf "$venv"
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv
        "$python" -m venv "$venv"
    fi
fi
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "requirements/$set_name.txt"

# The server of Azure's object storage is npm's. Without npm the tests that need it are skipped and say so.
azurite=3.35.0
if [ "$set_name" = test ] && [ "$(cat .cache/azurite/version 2>/dev/null)" != "$azurite" ]; then
    if command -v npm >/dev/null; then
        mkdir -p .cache/azurite
        if npm install --silent --no-audit --no-fund --no-save --prefix .cache/azurite "azurite@$azurite"; then
            echo "$azurite" >.cache/azurite/version
        else
            echo "note: Azurite could not be installed: tests of Azure will be skipped" >&2
        fi
    else
        echo "note: npm is not found: tests of Azure will be skipped" >&2
    fi
fi

touch "$venv/$set_name"
# The larger set holds the smaller one.
if [ "$set_name" = test ]; then touch .venv/demo; fi
