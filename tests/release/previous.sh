#!/usr/bin/env bash
# Builds the previous release into target/previous, if it is missing or another one: tests/upgrade runs it beside this one.
set -euo pipefail
cd "$(dirname "$0")/../.."
# Version 0.1.0 has no tag. This commit was reviewed as its first version.
commit=04658f0f5a66133a772bfe1d6a87f9d8a7cd6d13
target=${CARGO_TARGET_DIR:-$PWD/target}/previous
[ "$(cat "$target/commit" 2>/dev/null)" != $commit ] || exit 0
echo "release: building the previous release, $commit" >&2
rm -rf "$target"
mkdir -p "$target/source"
git archive "$commit" | tar xf - -C "$target/source"
(cd "$target/source" && CARGO_TARGET_DIR="$target/build" cargo build --locked --quiet --bin supercargo)
mv "$target/build/debug/supercargo" "$target/supercargo"
rm -rf "$target/source" "$target/build"
echo $commit > "$target/commit"
