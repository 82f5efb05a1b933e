#!/usr/bin/env bash
# Runs each fuzz target for some seconds, and prints a table of executions. A crash ends the run; its input is below fuzz/artifacts.
#
#   tests/release/fuzz.sh [seconds] [target ...]
set -euo pipefail
cd "$(dirname "$0")/../.."
tools=${CARGO_TARGET_DIR:-$PWD/target}/tools
seconds=${1:-60}
shift || true
if ! rustup run nightly rustc --version > /dev/null 2>&1; then
  echo "fuzz: skipped, since there is no nightly toolchain; install one with: rustup toolchain install nightly" >&2
  exit 0
fi
version=$(sed -n 's/^CARGO_FUZZ_VERSION := //p' Makefile)
[ -x "$tools/bin/cargo-fuzz" ] || cargo install --locked --quiet --root "$tools" --version "$version" cargo-fuzz
export PATH=$tools/bin:$PATH
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}/fuzz
targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(sed -n 's/^name = "\(.*\)"$/\1/p' fuzz/Cargo.toml | tail -n +2)
cd fuzz
printf '%-14s %14s %10s %10s %8s\n' TARGET EXECUTIONS SECONDS COVERAGE CORPUS
for target in "${targets[@]}"; do
  mkdir -p "corpus/$target"
  log=$(mktemp)
  # A release build with overflow checks, as in Cargo.toml. 4 KiB and 2 GiB: larger inputs only make it slower. The limit for an input is in real
  # time, so a busy machine needs a minute.
  if ! cargo +nightly fuzz run "$target" "corpus/$target" "seeds/$target" -- \
    -max_total_time="$seconds" -max_len=4096 -timeout=60 -rss_limit_mb=2048 -print_final_stats=1 > "$log" 2>&1; then
    tail -40 "$log" >&2
    echo "fuzz: $target failed; the input is in fuzz/artifacts/$target" >&2
    exit 1
  fi
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  coverage=$(grep -oE 'cov: [0-9]+' "$log" | tail -1 | cut -d' ' -f2)
  corpus=$(grep -oE 'corp: [0-9]+' "$log" | tail -1 | cut -d' ' -f2)
  printf '%-14s %14s %10s %10s %8s\n' "$target" "$executions" "$seconds" "$coverage" "$corpus"
  rm -f "$log"
done
