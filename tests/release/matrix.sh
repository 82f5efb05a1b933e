#!/usr/bin/env bash
# Runs what docs/support.md shows for each version of Kubernetes, and writes that page. The output of a finished run stays in target/matrix, so that an
# interrupted matrix continues. Runs of another commit are repeated.
#
#   tests/release/matrix.sh             all versions
#   DECISIONS=200000 tests/release/matrix.sh
#   tests/release/matrix.sh --page      only writes the page, from what was run so far
set -euo pipefail
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-$PWD/target}
logs=$target/matrix
mkdir -p "$logs"
versions=(1.34 1.35 1.36 1.37)

# run <name> <command ...>: the command's output, with the commit in the first line
run() {
  local log=$logs/$1.txt commit; shift
  commit=$(git rev-parse --short HEAD)
  [ "$(head -n 1 "$log" 2>/dev/null)" != "$commit" ] || return 0
  echo "matrix: $*" >&2
  { echo "$commit"; "$@" 2>&1; } > "$log.part" || { tail -20 "$log.part" >&2; return 1; }
  mv "$log.part" "$log"
}

if [ "${1:-}" != --page ]; then
  # As `make build`: packages built apart would build their dependencies with other features.
  cargo build --locked --quiet --bins -p supercargo -p supercargo-dev
  # etcd, kubectl and kwok of all versions, and helm.
  tests/upstream/build.sh
  tests/packaging/build.sh helm
  for version in "${versions[@]}"; do
    of=()
    [ "$version" = 1.36 ] || of=(--version "$version")
    tests/upstream/build.sh "${of[@]}" oracle kube-apiserver kube-controller-manager kube-scheduler
    run "$version-fuzz" "$target/debug/fuzz" --seed 1000 --decisions "${DECISIONS:-50000}" --all --emulated-version "$version"
    run "$version-api" env SUPERCARGO_KUBERNETES="$version" cargo test --locked --quiet -p supercargo -p supercargo-dev --test apiserver
  done
fi

# The cells of a version. A run names its commit.
cell() { # <name of the run> <sed expression that finds the figures>
  local log=$logs/$1.txt
  [ -s "$log" ] || { echo "not run"; return; }
  echo "$(sed -nE "$2" "$log") ($(head -1 "$log"))"
}
vectors() {
  local recorded=tests/golden/versions/$1.jsonl.gz
  if [ -f "$recorded" ]; then gzip -dc "$recorded" | wc -l; else cat tests/golden/*.jsonl <(gzip -dc tests/golden/*.jsonl.gz) | wc -l; fi
}
conformance() {
  awk -v version="## $1" '$0 == version { at = 1 } at && /^Of / { print; exit }' docs/conformance.md 2>/dev/null |
    sed -E 's/^Of ([0-9]+) tests, kube-scheduler passes ([0-9]+), supercargo ([0-9]+), both ([0-9]+).*/\4 of the \2 that kube-scheduler passes/' | grep . || echo "not run"
}

{
  cat <<'TEXT'
# Supported versions of Kubernetes

`make matrix` runs what this page shows, and writes it. The commit of each run is in parentheses.

- **Recorded clusters**: the real kube-scheduler's answers to these clusters equal supercargo's. `make test` compares them.
- **Random decisions**: decisions on random clusters, compared with the real framework of that version.
- **API server tests**: `tests/apiserver` on a real API server of that version.
- **Conformance**: Kubernetes' own e2e tests of the scheduler; [the page](conformance.md) names each.

| Kubernetes | Recorded clusters | Random decisions | API server tests | Conformance |
|---|---|---|---|---|
TEXT
  for version in "${versions[@]}"; do
    fuzz=$(cell "$version-fuzz" 's/^seed .*: ([0-9]+) decisions in .* ([0-9]+) scenarios with mismatches/\1, \2 mismatches/p')
    api=$(cell "$version-api" 's/^test result: ok\. ([0-9]+) passed; 0 failed.*/\1 passed/p')
    echo "| $version | $(vectors "$version") | $fuzz | $api | $(conformance "$version") |"
  done
  cat <<'TEXT'

A 1.33 API server is served as 1.34, with what it lacks left out. A newer one than 1.37 is served as 1.37; the log and `supercargo doctor` warn. [versions.md](versions.md) has the rules.
TEXT
} > docs/support.md
