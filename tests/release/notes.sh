#!/usr/bin/env bash
# Prints the part of CHANGELOG.md about a version, or about what is not released yet.
#
#   tests/release/notes.sh 0.1.0
set -euo pipefail
cd "$(dirname "$0")/../.."
part() { awk -v heading="## [$1]" 'index($0, heading) == 1 { at = 1; next } at && /^## \[/ { exit } at' CHANGELOG.md; }
notes=$(part "${1:?name a version}")
[ -n "$notes" ] || notes=$(part Unreleased)
[ -n "$notes" ] || { echo "notes: CHANGELOG.md has no part about $1" >&2; exit 1; }
printf '%s\n' "$notes"
