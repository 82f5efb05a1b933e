#!/usr/bin/env bash
# Builds the committed source again in another directory with a separate target directory, and compares the result with the binary of
# `make release-binary` byte by byte. Needs the time and the disk space of a clean release build.
#
#   tests/release/reproducible.sh [target triple]
set -euo pipefail
cd "$(dirname "$0")/../.."
triple=${1:-$(rustc -vV | sed -n 's/^host: //p')}
first=$(realpath "${CARGO_TARGET_DIR:-target}/dist/supercargo")
[ -z "$(git status --porcelain)" ] || { echo "reproducible: there are uncommitted changes, which the second build would lack; commit them first" >&2; exit 1; }
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git archive HEAD | tar -x -C "$copy"
CARGO_TARGET_DIR="$copy/target" make --no-print-directory -C "$copy" release-binary TRIPLE="$triple"
if ! cmp "$first" "$copy/target/dist/supercargo"; then
  echo "reproducible: two builds of the same source differ" >&2
  exit 1
fi
echo "reproducible: two builds in two directories are identical, $(sha256sum < "$first" | cut -d' ' -f1)"
