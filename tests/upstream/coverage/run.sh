#!/usr/bin/env bash
# Runs all golden vectors through upstream's code with coverage, and writes tests/golden/COVERAGE.md: which blocks they reach. Fails if a block
# is not reached and reasons.txt gives no reason.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
target="${CARGO_TARGET_DIR:-$root/target}/upstream"
data="$target/coverage"
rm -rf "$data" && mkdir -p "$data"
cd "$root/tests/golden"
cat_all() { cat ./*.jsonl; gzip -dc ./*.jsonl.gz; }
cat_all > "$data.jsonl"
GOCOVERDIR="$data" "$target/bin/oracle-coverage" answer < "$data.jsonl" > "$data.answers"
cd "$here/.."
go tool covdata textfmt -i="$data" -o "$data.txt"
go run ./coverage "$data.txt" coverage/reasons.txt "$data.answers" > "$data.md"
mv "$data.md" "$root/tests/golden/COVERAGE.md"
rm -rf "$data" "$data.jsonl" "$data.answers" "$data.txt"
head -n 60 "$root/tests/golden/COVERAGE.md"
