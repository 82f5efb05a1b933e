#!/usr/bin/env bash
# Everything CI runs, part by part, with the seconds each part took. Stops at the first part that fails.
set -euo pipefail
cd "$(dirname "$0")/.."

names=() seconds=()
part() {
  local name=$1 began=$SECONDS; shift
  printf '\n== %s\n' "$name"
  "$@" || { printf '\nFAILED: %s\n' "$name"; exit 1; }
  names+=("$name") seconds+=($((SECONDS - began)))
}

part "control plane binaries" tests/upstream/build.sh
part "helm" make --no-print-directory packaging
part "format, lints, docs, licences, fences" make --no-print-directory lint
part "engine" cargo test --locked --quiet -p supercargo-core
part "simulator" cargo test --locked --quiet -p supercargo-sim
part "mistakes are noticed" make --no-print-directory mutations
part "shell" cargo test --locked --quiet --lib --bins --examples
part "golden vectors" cargo test --locked --quiet --test golden
part "workloads, allocations" cargo test --locked --quiet --test workloads --test allocations
part "packaging, habits, serving" cargo test --locked --quiet --test config --test dashboards --test manifests --test packages --test tidy --test serve --test simulate --test explain --test replay --test placement --test report
part "spans" cargo test --locked --quiet --features otlp --test otlp
part "API server" cargo test --locked --quiet --test apiserver

printf '\n'
for at in "${!names[@]}"; do printf '%5d s  %s\n' "${seconds[$at]}" "${names[$at]}"; done
printf '%5d s  in all\n' "$SECONDS"
