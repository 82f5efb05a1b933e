#!/usr/bin/env bash
# Builds the programs of `make demo` and `make cluster`: the control plane (Go) and supercargo (Rust) side by side, without optimization, which
# takes a third of the time of the tests' build. Prints progress with an estimate.
#
#   tests/demo.sh demo|cluster
set -euo pipefail
cd "$(dirname "$0")/.."
name=$1
target=${CARGO_TARGET_DIR:-$PWD/target}
logs=$target/build-$name
mkdir -p "$logs"
# Whether some crates were built before. Then no estimate is possible.
again=
[ -z "$(ls "$target/demo/.fingerprint" 2>/dev/null)" ] || again=1

# With -v, go names each package that it compiles.
GOFLAGS="${GOFLAGS:-} -v" tests/upstream/build.sh 2> "$logs/go" &
go=$!
cargo build --locked --profile demo --bin supercargo --bin "$name" -p supercargo -p supercargo-dev 2> "$logs/cargo" &
cargo=$!
trap 'kill "$go" "$cargo" 2>/dev/null || true' EXIT

crates= packages=
# Prints one line about what is being built, with the time that is left at the rate so far.
progress() {
  local now=$SECONDS compiled built program done_go=100 done_rust=100 percent
  [ -n "$packages" ] || packages=$(tests/upstream/build.sh packages)
  [ -n "$crates" ] || crates=$(cargo tree --locked --quiet --prefix none --edges normal,build -p supercargo -p supercargo-dev | awk '{ print $1, $2 }' | sort -u | wc -l)
  # cargo says only what it compiles: with a folder of an earlier build, the share of all crates that is done is not known.
  compiled=$(grep -c '^ *Compiling' "$logs/cargo" || true)
  program=$(sed -n 's/^upstream: building \([^ ]*\) .*/\1/p' "$logs/go" | tail -1)
  built=$(grep -cvE '^(upstream|go): ' "$logs/go" || true)
  if runs "$go"; then done_go=$((built * 100 / packages)); else program=; fi
  if runs "$cargo"; then done_rust=$((compiled * 100 / crates)); fi
  # The Go build takes twice as long as the Rust build, unless Go has the packages already. What is left depends on the one that still runs.
  if [ -z "$program" ]; then percent=$done_rust; elif ((done_rust == 100)); then percent=$done_go; else percent=$(((done_go * 2 + done_rust) / 3)); fi
  if [ -n "$again" ]; then
    printf '%s: %4d s  %d crates compiled%s\n' "$name" "$now" "$compiled" "${program:+, $program of the control plane}"
    return
  fi
  printf '%s: %4d s  %s crates of supercargo%s' "$name" "$now" "$compiled of $crates" "${program:+, $program of the control plane}"
  if ((percent >= 10)); then printf "; about %d s left" $((now * (100 - percent) / percent)); fi
  printf '\n'
} >&2

runs() { kill -0 "$1" 2>/dev/null; }
# Ends everything if a build has failed, and prints its log without the lines that only name a package of Go.
check() { runs "$1" || wait "$1" || { grep -v '^[^ ]*$' "$2" >&2; exit 1; }; }
polls=0
while runs "$go" || runs "$cargo"; do
  sleep 0.2
  polls=$((polls + 1))
  check "$cargo" "$logs/cargo"
  check "$go" "$logs/go"
  ((polls % 50)) || progress
done
check "$cargo" "$logs/cargo"
check "$go" "$logs/go"
trap - EXIT
