#!/usr/bin/env bash
# Builds the program that `make release-binary` left in dist once more, from a copy of what git has in another folder and with a target folder of its own,
# and compares the two byte by byte. Takes as long as a release build from nothing, and its room on the disk.
#
#   tests/release/reproducible.sh [target triple]
set -euo pipefail
cd "$(dirname "$0")/../.."
triple=${1:-$(rustc -vV | sed -n 's/^host: //p')}
first=$(realpath "${CARGO_TARGET_DIR:-target}/dist/supercargo")
[ -z "$(git status --porcelain)" ] || { echo "reproducible: what git does not have would make the difference; commit it first" >&2; exit 1; }
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git archive HEAD | tar -x -C "$copy"
CARGO_TARGET_DIR="$copy/target" make --no-print-directory -C "$copy" release-binary TRIPLE="$triple"
if ! cmp "$first" "$copy/target/dist/supercargo"; then
  echo "reproducible: two builds of the same source differ" >&2
  exit 1
fi
echo "reproducible: two builds in two folders are the same, $(sha256sum < "$first" | cut -d' ' -f1)"
