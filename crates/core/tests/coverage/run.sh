#!/usr/bin/env bash
# Measures which regions of the engine's cached paths the laws alone reach, and writes COVERAGE.md beside this script. A region is a basic
# block of code. Fails if a region is not reached and reasons.txt gives no reason.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../../.." && pwd)
# A separate target directory: instrumented builds share nothing with others.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$root/target}/law-coverage" CARGO_PROFILE_DEV_DEBUG=0
data="$CARGO_TARGET_DIR/raw"
tools=$(dirname "$(find "$(rustc --print sysroot)" -name llvm-profdata | head -n 1)")
if [ ! -x "$tools/llvm-cov" ]; then
  echo "llvm-cov is not installed: run 'rustup component add llvm-tools'" >&2
  exit 1
fi
laws=(domains incremental base_partition two_queue infeasible_cache ids device_results device_slices many_devices verification placements trial slices)
paths=(incremental cache/log.rs framework/dry_runs.rs plugins/inter_pod_affinity/tally.rs plugins/pod_topology_spread/tally.rs)

rm -rf "$data"
build() { RUSTFLAGS="-C instrument-coverage" LLVM_PROFILE_FILE="$data/%m-%p.profraw" cargo test --locked -p supercargo-core "$@"; }
tests=()
for law in "${laws[@]}"; do tests+=(--test "$law"); done
cd "$root"
build "${tests[@]}" --quiet >&2
objects=()
while read -r binary; do objects+=(-object "$binary"); done < <(
  build "${tests[@]}" --no-run 2>&1 | sed -n 's/.*Executable.*(\(.*\))$/\1/p')
"$tools/llvm-profdata" merge -sparse "$data"/*.profraw -o "$data/all.profdata"
sources=()
for path in "${paths[@]}"; do sources+=("crates/core/src/$path"); done
"$tools/llvm-cov" export -instr-profile "$data/all.profdata" "${objects[@]}" -sources "${sources[@]/#/$root/}" > "$data/all.json"
sed 's/{"branches"/\n{"branches"/g' "$data/all.json" | awk -v root="$root/crates/core/src/" -f "$here/regions.awk" > "$data/regions"
awk -v laws="${laws[*]}" -f "$here/table.awk" "$here/reasons.txt" "$data/regions" > "$data/COVERAGE.md"
mv "$data/COVERAGE.md" "$here/COVERAGE.md"
sed '/^## /,$d' "$here/COVERAGE.md"
