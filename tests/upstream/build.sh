#!/usr/bin/env bash
# Builds the pinned control plane (see go.mod beside this file) into target/upstream/bin, if it is missing or of another pin. A binary of the
# pinned version in $KUBEBUILDER_ASSETS is linked instead of built.
#
#   tests/upstream/build.sh [kube-apiserver kube-scheduler ...]     without names: all of the control plane
#   tests/upstream/build.sh oracle                                  the program that runs the real framework on scenarios
#   tests/upstream/build.sh oracle-coverage                         the same, with coverage of upstream's plugins
#   tests/upstream/build.sh e2e.test                                Kubernetes' own end-to-end tests
#   tests/upstream/build.sh packages                                prints how many Go packages the control plane has
#   tests/upstream/build.sh --version 1.37 [names ...]              Kubernetes of versions/1.37.mod, into target/upstream/1.37/bin
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
bin="${CARGO_TARGET_DIR:-$root/target}/upstream/bin"
cd "$here"
mod=go.mod
if [ "${1:-}" = --version ]; then
  mod=versions/${2:-}.mod
  [ -f "$mod" ] || { echo "upstream: no version ${2:-}; known versions: $(cd versions && ls *.mod | sed 's/\.mod$//' | xargs)" >&2; exit 2; }
  bin="${bin%/bin}/$2/bin"
  shift 2
fi
mkdir -p "$bin"
# Without debug information, which these programs do not need, the compiler takes a tenth less CPU time. tests/packaging/build.sh has the same
# flags, so that both share what is compiled.
export GOFLAGS="${GOFLAGS:-} -gcflags=all=-dwarf=false"

pin_of() { awk -v m="$2" '$1 == m && $2 ~ /^v/ { print $2; exit }' "$1"; }
k8s=$(pin_of "$mod" k8s.io/kubernetes) etcd=$(pin_of go.mod go.etcd.io/etcd/server/v3) kwok=$(pin_of go.mod sigs.k8s.io/kwok)
[ -n "$k8s" ] && [ -n "$etcd" ] && [ -n "$kwok" ] || { echo "upstream: $mod or go.mod lacks a pin for kubernetes, etcd or kwok" >&2; exit 1; }

minor=${k8s#v1.}; minor=${minor%%.*}
k8s_flags="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
  k8s_flags="$k8s_flags -X $package.gitVersion=$k8s -X $package.gitMajor=1 -X $package.gitMinor=$minor -X $package.gitTreeState=clean"
done

# tool <name> <pin> <package> <ldflags> <pattern in the version output of the pinned version> [version arguments]
tool() {
  local name=$1 pin=$2 package=$3 flags=$4 pattern=$5 from=go.mod; shift 5
  case $package in k8s.io/*) from=$mod ;; esac
  local out="$bin/$name" stamp="$bin/.$name.pin"
  [ -x "$out" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$pin" ] && return 0
  local given="${KUBEBUILDER_ASSETS:-}/$name"
  local said=
  [ -n "${KUBEBUILDER_ASSETS:-}" ] && [ -x "$given" ] && said=$("$given" "$@" 2>&1 || true)
  if grep -qF "$pattern" <<<"$said"; then
    ln -sf "$given" "$out"
    echo "upstream: $name $pin from KUBEBUILDER_ASSETS" >&2
  else
    echo "upstream: building $name $pin (the first build of the control plane takes some minutes)" >&2
    rm -f "$out"
    CGO_ENABLED=0 go build -modfile="$from" -trimpath -ldflags "$flags" -o "$out.part" "$package"
    mv "$out.part" "$out"
  fi
  echo "$pin" > "$stamp"
}

# The oracle is part of this repository: it is rebuilt when its sources or a pin change. Its version is not checked.
oracle() {
  local out="$bin/oracle" stamp="$bin/.oracle.pin" sources
  sources=$(cat "$mod" "${mod%.mod}.sum" oracle/*.go | cksum)
  [ -x "$out" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$sources" ] && return 0
  echo "upstream: building the oracle of $k8s (the first time takes some minutes)" >&2
  CGO_ENABLED=0 go build -modfile="$mod" -tags "kube1.$minor" -trimpath -ldflags "$k8s_flags" -o "$out.part" ./oracle
  mv "$out.part" "$out"
  echo "$sources" > "$stamp"
}

# The packages that decide and decode. The oracle itself must be among them, or no coverage is written at exit.
covered=(
  k8s.io/kubernetes/pkg/scheduler/framework/{plugins,preemption}/...
  k8s.io/component-helpers/{nodedeclaredfeatures,resource,scheduling/corev1,storage}/...
  k8s.io/csi-translation-lib/... ./oracle
)
oracle_coverage() {
  local out="$bin/oracle-coverage" stamp="$bin/.oracle-coverage.pin" sources
  sources=$(cat go.mod go.sum oracle/*.go build.sh | cksum)
  [ -x "$out" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$sources" ] && return 0
  echo "upstream: building the oracle with coverage (the first time takes some minutes)" >&2
  CGO_ENABLED=0 go build -tags "kube1.$minor" -trimpath -ldflags "$k8s_flags" -cover -coverpkg="$(IFS=,; echo "${covered[*]}")" -o "$out.part" ./oracle
  mv "$out.part" "$out"
  echo "$sources" > "$stamp"
}

# Kubernetes' end-to-end tests. Modules that only they need are in no go.sum here: a copy of the module file gets them.
e2e() {
  local out="$bin/e2e.test" stamp="$bin/.e2e.test.pin" copy
  [ -x "$out" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$k8s" ] && return 0
  echo "upstream: building the end-to-end tests of $k8s (the first time takes some minutes)" >&2
  copy=$(mktemp -d)
  cp "$mod" "$copy/go.mod"
  cp "${mod%.mod}.sum" "$copy/go.sum"
  CGO_ENABLED=0 go test -c -vet=off -mod=mod -modfile="$copy/go.mod" -trimpath -ldflags "$k8s_flags" -o "$out.part" k8s.io/kubernetes/test/e2e
  rm -r "$copy"
  mv "$out.part" "$out"
  echo "$k8s" > "$stamp"
}

build() {
  case $1 in
    e2e.test) e2e ;;
    oracle) oracle ;;
    oracle-coverage) oracle_coverage ;;
    kube-apiserver | kube-controller-manager | kube-scheduler)
      tool "$1" "$k8s" "k8s.io/kubernetes/cmd/$1" "$k8s_flags" "Kubernetes $k8s" --version ;;
    kubectl) tool "$1" "$k8s" k8s.io/kubernetes/cmd/kubectl "$k8s_flags" "Client Version: $k8s" version --client ;;
    etcd) tool "$1" "$etcd" go.etcd.io/etcd/server/v3 "-s -w" "etcd Version: ${etcd#v}" --version ;;
    kwok) tool "$1" "$kwok" sigs.k8s.io/kwok/cmd/kwok "-s -w -X sigs.k8s.io/kwok/pkg/consts.Version=${kwok#v}" "$kwok" --version ;;
    *) echo "upstream: no tool named $1; known tools: kube-apiserver kube-controller-manager kube-scheduler kubectl etcd kwok oracle oracle-coverage e2e.test" >&2; exit 2 ;;
  esac
}

control_plane=(etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kwok)
if [ "${1:-}" = packages ]; then
  # Names the package of a program instead of building it.
  tool() { printf '%s\n' "$3"; }
  for name in "${control_plane[@]}"; do build "$name"; done | xargs go list -modfile="$mod" -deps | sort -u | wc -l
  exit
fi
[ $# -gt 0 ] || set -- "${control_plane[@]}"
for name in "$@"; do build "$name"; done

# kwok needs stages: take those of its own module.
stages="$bin/../kwok-stages.yaml"
if [ ! -s "$stages" ] || [ "$(cat "$bin/.kwok-stages.pin" 2>/dev/null)" != "$kwok" ]; then
  source=$(go mod download -json "sigs.k8s.io/kwok@$kwok" | awk -F'"' '$2 == "Dir" { print $4 }')/kustomize/stage
  : > "$stages.part"
  for folder in node/fast node/heartbeat-with-lease pod/fast; do
    for file in "$source/$folder"/*.yaml; do
      case $file in */kustomization.yaml) ;; *) printf -- '---\n' >> "$stages.part"; cat "$file" >> "$stages.part" ;; esac
    done
  done
  mv "$stages.part" "$stages"
  echo "$kwok" > "$bin/.kwok-stages.pin"
fi
