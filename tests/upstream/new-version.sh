#!/usr/bin/env bash
# Prepares the emulation of another version of kube-scheduler: pins it, builds its oracle, has it decide on all golden clusters, and lists
# the clusters on which it differs from the newest version that is pinned already.
#
#   tests/upstream/new-version.sh 1.38.0
#
# docs/versions.md says what follows.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
version=${1:-}
[[ $version =~ ^1\.[0-9]+\.[0-9]+$ ]] || { echo "new-version: give a version of Kubernetes, for example VERSION=1.38.0" >&2; exit 2; }
minor=${version%.*}
cd "$here"
newest=$(cd versions && ls *.mod | sed 's/\.mod$//' | grep -vx "$minor" | sort -V | tail -1)

if [ ! -f "versions/$minor.mod" ]; then
  source=$(go mod download -json "k8s.io/kubernetes@v$version" | awk -F'"' '$2 == "Dir" { print $4 }')
  {
    sed '/^require/,$d' "versions/$newest.mod"
    printf 'require k8s.io/kubernetes v%s\n\nreplace (\n' "$version"
    awk '/=> \.\/staging\/src\/k8s\.io/ { print $1 }' "$source/go.mod" | sort -u | sed "s|.*|\t& => & v0.${version#1.}|"
    echo ")"
  } > "versions/$minor.mod"
  go mod tidy -modfile="versions/$minor.mod"
fi

./build.sh --version "$minor" oracle
bin="${CARGO_TARGET_DIR:-$root/target}/upstream/$minor/bin"
recorded="$root/tests/golden/versions"
"$bin/oracle" record "$recorded/$minor.jsonl.gz" "$root"/tests/golden/*.jsonl "$root"/tests/golden/*.jsonl.gz
answers() { zcat "$recorded/$1.jsonl.gz" | sort; }
differing=$(comm -13 <(answers "$newest") <(answers "$minor") | grep -o '"name":"[^"]*"' | cut -d'"' -f4 || true)
echo "tests/golden/versions/$minor.jsonl.gz has the answers of $version. $(wc -w <<<"$differing") of $(answers "$minor" | wc -l) clusters differ from $newest:"
echo "$differing"
