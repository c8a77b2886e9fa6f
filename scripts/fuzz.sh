#!/usr/bin/env bash
# Runs every fuzz target for some seconds: fuzz.sh SECONDS [TARGET...]. libFuzzer on stable Rust, without sanitizers:
# coverage comes from compiler flags, which a --target keeps away from build scripts.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../fuzz"
seconds=${1:?seconds for each target}
shift
[ -f Cargo.toml ] || { echo "no fuzz targets yet"; exit 0; }
command -v c++ >/dev/null || { echo "skipped: libFuzzer needs a C++ compiler"; exit 0; }
host=$(rustc -vV | sed -n 's/^host: //p')
export RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares -Clink-dead-code -Ccodegen-units=1"
export CARGO_TARGET_DIR=$PWD/target
cargo build --quiet --bins --target "$host"
targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(cargo metadata --no-deps --format-version 1 |
    python3 -c 'import json,sys; [print(t["name"]) for p in json.load(sys.stdin)["packages"] for t in p["targets"] if "bin" in t["kind"]]')
for target in "${targets[@]}"; do
    mkdir -p "corpus/$target"
    seeds=()
    [ -d "seeds/$target" ] && seeds=("seeds/$target")
    log=$(mktemp)
    if "$CARGO_TARGET_DIR/$host/debug/$target" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 \
        -artifact_prefix="corpus/$target-" "corpus/$target" "${seeds[@]}" >"$log" 2>&1; then
        printf '%-24s %s\n' "$target" "$(grep -E '^Done ' "$log" || tail -1 "$log")"
    else
        tail -40 "$log"
        echo "FAILED: fuzz target $target"
        exit 1
    fi
done
