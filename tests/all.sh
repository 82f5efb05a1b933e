#!/usr/bin/env bash
# Runs everything CI runs and prints the seconds of each part. Stops at the first failure.
set -euo pipefail
cd "$(dirname "$0")/.."

# A linker on a full disk only reports a bus error.
on_full_disk() {
  local target=${CARGO_TARGET_DIR:-target} free
  free=$(df -Pm "$target" | awk 'NR == 2 { print $4 }')
  if ((free < 1000)); then
    printf 'The disk of %s has %s MB left; a cold run fills it with about 8 GB.\n' "$target" "$free"
  fi
}

names=() seconds=()
part() {
  local name=$1 began=$SECONDS; shift
  printf '\n== %s\n' "$name"
  "$@" || { printf '\nFAILED: %s\n' "$name"; on_full_disk; exit 1; }
  names+=("$name") seconds+=($((SECONDS - began)))
}

part "control plane binaries" tests/upstream/build.sh
part "helm" make --no-print-directory packaging
part "format, lints, docs, licenses, module boundaries" make --no-print-directory lint
part "conventions" cargo test --locked --quiet --test tidy
part "engine" cargo test --locked --quiet -p supercargo-core
part "simulator" cargo test --locked --quiet -p supercargo-sim
part "deliberate mistakes are detected" make --no-print-directory mutations
# With the whole workspace, since on its own the package would build its dependencies again with other features.
part "expressions, the example of the library" cargo test --locked --quiet --workspace --exclude supercargo-core --exclude supercargo-sim --test api --test recorded --test robustness --test traps --test library
part "packages around the engine" cargo test --locked --quiet --workspace --exclude supercargo-core --exclude supercargo-sim --lib --bins
part "examples in the documentation" cargo test --locked --quiet --workspace --exclude supercargo-core --exclude supercargo-sim --doc
part "golden vectors" cargo test --locked --quiet --test golden
part "WebAssembly module" crates/web/wasm.sh --test
part "golden vectors in the WebAssembly module" cargo test --locked --quiet --workspace --exclude supercargo-core --exclude supercargo-sim --test wasm
part "workloads, allocations" cargo test --locked --quiet --test workloads --test allocations
part "packaging, serving, commands" cargo test --locked --quiet --test config --test dashboards --test manifests --test packages --test serve --test simulate --test explain --test replay --test placement --test report
part "spans" cargo test --locked --quiet --features otlp --test otlp
# Its tests wait for most of their time.
part "API server" cargo test --locked --quiet --test apiserver -- --test-threads $(($(nproc) + 1))

printf '\n'
for at in "${!names[@]}"; do printf '%5d s  %s\n' "${seconds[$at]}" "${names[$at]}"; done
printf '%5d s  total\n' "$SECONDS"
