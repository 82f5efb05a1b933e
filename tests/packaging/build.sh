#!/usr/bin/env bash
# Builds the tools that check packages and rules into target/packaging/bin, if they are missing or of another pin (see the go.mod in each
# directory). The first build of Prometheus takes a few minutes.
#
#   tests/packaging/build.sh [promtool helm prometheus krew actionlint image]     without names: promtool and helm
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
bin="${CARGO_TARGET_DIR:-$root/target}/packaging/bin"
mkdir -p "$bin"
# As tests/upstream/build.sh has them.
export GOFLAGS="${GOFLAGS:-} -gcflags=all=-dwarf=false"

tool() {
  local name=$1 folder=$2 module=$3 package=$4 pin
  cd "$here/$folder"
  pin=$(awk -v m="$module" '$1 == m && $2 ~ /^v/ { print $2; exit }' go.mod)
  [ -n "$pin" ] || { echo "packaging: go.mod lacks a pin for $module" >&2; exit 1; }
  [ -x "$bin/$name" ] && [ "$(cat "$bin/.$name.pin" 2>/dev/null)" = "$pin" ] && return 0
  echo "packaging: building $name $pin" >&2
  CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "$bin/$name.part" "$package"
  mv "$bin/$name.part" "$bin/$name"
  echo "$pin" > "$bin/.$name.pin"
}

# The program that assembles the image is part of this repository. Go rebuilds it only if it changed.
image() {
  cd "$root/tests/release/image"
  CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "$bin/image" .
}

[ $# -gt 0 ] || set -- promtool helm
for name in "$@"; do
  case $name in
    promtool | prometheus) tool "$name" prometheus github.com/prometheus/prometheus "github.com/prometheus/prometheus/cmd/$name" ;;
    helm) tool helm helm helm.sh/helm/v3 helm.sh/helm/v3/cmd/helm ;;
    krew) tool validate-krew-manifest krew sigs.k8s.io/krew sigs.k8s.io/krew/cmd/validate-krew-manifest ;;
    actionlint) tool actionlint actionlint github.com/rhysd/actionlint github.com/rhysd/actionlint/cmd/actionlint ;;
    image) image ;;
    *) echo "packaging: no tool named $name; known tools: promtool prometheus helm krew actionlint image" >&2; exit 2 ;;
  esac
done
