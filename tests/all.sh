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
failed() { printf '\nFAILED: %s\n' "$1"; on_full_disk; exit 1; }
part() {
  local name=$1 began=$SECONDS; shift
  printf '\n== %s\n' "$name"
  "$@" || failed "$name"
  names+=("$name") seconds+=($((SECONDS - began)))
}

# Starts a part whose tests wait for most of their time, beside those that follow. Its output comes at its end.
waiting= waiting_name= waiting_began= waiting_log=
begin_part() {
  waiting_name=$1 waiting_began=$SECONDS waiting_log=$(mktemp); shift
  printf '\n== %s: begins, beside what follows\n' "$waiting_name"
  # In a process group of its own, so that all of it can be ended.
  set -m
  "$@" > "$waiting_log" 2>&1 < /dev/null &
  waiting=$!
  set +m
  trap '[ -z "$waiting" ] || kill -- "-$waiting" 2> /dev/null || true' EXIT
  trap 'exit 130' INT TERM
}
end_part() {
  local ended=0
  printf '\n== %s\n' "$waiting_name"
  wait "$waiting" || ended=$?
  waiting=
  cat "$waiting_log"
  rm "$waiting_log"
  [ "$ended" = 0 ] || failed "$waiting_name"
  names+=("$waiting_name, beside those above") seconds+=($((SECONDS - waiting_began)))
}

part "control plane binaries" tests/upstream/build.sh
part "helm" make --no-print-directory packaging
part "format, lints, docs, licenses, module boundaries" make --no-print-directory lint
part "conventions" cargo test --locked --quiet --test tidy
part "engine" cargo test --locked --quiet -p supercargo-core
# With the whole workspace, since on its own the package would build its dependencies again with other features.
part "expressions, the example of the library" cargo test --locked --quiet --workspace --exclude supercargo-core --exclude supercargo-sim --test api --test recorded --test robustness --test traps --test library
part "packages around the engine" cargo test --locked --quiet --workspace --exclude supercargo-core --exclude supercargo-sim --lib --bins
part "examples in the documentation" cargo test --locked --quiet --workspace --exclude supercargo-core --exclude supercargo-sim --doc
part "golden vectors" cargo test --locked --quiet --test golden
part "workloads, allocations" cargo test --locked --quiet --test workloads --test allocations
part "packaging, serving, commands" cargo test --locked --quiet --test config --test dashboards --test manifests --test packages --test serve --test simulate --test explain --test replay --test placement --test report
part "spans" cargo test --locked --quiet --features otlp --test otlp
begin_part "API server" cargo test --locked --quiet --test apiserver -- --test-threads $(($(nproc) + 1))
# At a lower priority than the scheduler and the API servers that are tested meanwhile. None of these builds the program, which they run.
part "simulator" nice -n 10 cargo test --locked --quiet -p supercargo-sim
part "deliberate mistakes are detected" nice -n 10 make --no-print-directory mutations
part "WebAssembly module" nice -n 10 crates/web/wasm.sh --test
part "golden vectors in the WebAssembly module" nice -n 10 cargo test --locked --quiet --workspace --exclude supercargo-core --exclude supercargo-sim --test wasm
end_part

printf '\n'
for at in "${!names[@]}"; do printf '%5d s  %s\n' "${seconds[$at]}" "${names[$at]}"; done
printf '%5d s  total\n' "$SECONDS"
