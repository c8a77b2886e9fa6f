#!/usr/bin/env bash
# Brings real recordings into .cache/recordings: flac and wav files out of two Debian packages, unpacked, not installed.
# Where no packages can be had: the digits that scikit-learn ships, as an npy.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
dest=.cache/recordings
[ -d "$dest" ] && exit 0
mkdir -p .cache
work=$(mktemp -d .cache/fetch.XXXXXX)
trap 'rm -rf "$work"' EXIT
mkdir "$work/out"

from_packages() {
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
    (
        cd "$work"
        # A machine that never asked for the lists of packages has none.
        apt-get download -qq sonic-pi-samples alsa-utils 2>/dev/null || { apt-get update -qq && apt-get download -qq sonic-pi-samples alsa-utils; } || exit 1
        for package in *.deb; do dpkg-deb -x "$package" tree || exit 1; done
        mkdir -p out/alsa out/sonic-pi
        find tree -path '*/sounds/alsa/*.wav' -exec cp {} out/alsa/ \;
        find tree -name '*.flac' -exec cp {} out/sonic-pi/ \;
    ) >"$work/log" 2>&1 && [ -n "$(find "$work/out" -type f | head -1)" ]
}

if from_packages; then
    echo "recordings: $(find "$work/out" -name '*.flac' | wc -l) flac files of sonic-pi-samples, $(find "$work/out" -name '*.wav' | wc -l) wav files of alsa-utils"
else
    echo "recordings: no Debian packages to be had here; taking the digits of scikit-learn instead"
    rm -rf "$work/out" && mkdir "$work/out"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements/digits.txt
    .venv/bin/python - "$work/out" <<'P'
import sys
import numpy as np
from sklearn.datasets import load_digits

# One file for each digit, so that the splits, which go by file, have something to divide.
digits = load_digits()
for digit in range(10):
    np.save(f"{sys.argv[1]}/digit-{digit}.npy", digits.images[digits.target == digit].astype("uint8"))
P
fi
mv "$work/out" "$dest"
