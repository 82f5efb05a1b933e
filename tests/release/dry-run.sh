#!/usr/bin/env bash
# Makes every artifact of a release in target/dist/release, checks each one, and publishes nothing. The workflow runs this script, and uploads
# what it made.
#
#   tests/release/dry-run.sh            builds the program first
#   BINARY_AMD64=FILE BINARY_ARM64=FILE tests/release/dry-run.sh     uses these programs
set -euo pipefail
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-$PWD/target}
out=$target/dist/release
work=$target/dist/check
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
revision=$(git rev-parse HEAD)
# Archives and image have the commit's time, so that the same commit gives the same bytes.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
rm -rf "$out" "$work"
mkdir -p "$out" "$work"
done_checks=()
check() { done_checks+=("$1"); }
fail() { echo "release: $*" >&2; exit 1; }

tests/packaging/build.sh helm image krew
helm=$target/packaging/bin/helm image=$target/packaging/bin/image krew=$target/packaging/bin/validate-krew-manifest

# The program.
if [ -z "${BINARY_AMD64:-}" ]; then
  make --no-print-directory release-binary
  BINARY_AMD64=$target/dist/supercargo
fi
programs=("amd64=$BINARY_AMD64")
if [ -z "${BINARY_ARM64:-}" ]; then
  tests/release/arm64.sh
  built=$target/aarch64-unknown-linux-gnu/release/supercargo
  [ ! -x "$built" ] || BINARY_ARM64=$built
fi
[ -z "${BINARY_ARM64:-}" ] || programs+=("arm64=$BINARY_ARM64")
tests/release/sbom.sh > "$out/supercargo.cdx.json"
platforms=() archives=()
for program in "${programs[@]}"; do
  arch=${program%%=*} file=${program#*=}
  # Bytes 18 and 19 of an ELF file are the architecture.
  case $arch in amd64) machine=62 ;; arm64) machine=183 ;; esac
  [ "$(od -An -tu2 -j18 -N2 "$file" | tr -d ' ')" = "$machine" ] || fail "$file is not for $arch"
  check "linux/$arch: an ELF file for this architecture"
  stage=$work/archive-$arch
  mkdir -p "$stage"
  install -m 755 "$file" "$stage/supercargo"
  install -m 755 "$file" "$stage/kubectl-supercargo"
  cp LICENSE "$out/supercargo.cdx.json" "$stage"
  archive=$out/supercargo-$version-linux-$arch.tar.gz
  tar --create --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --directory "$stage" . | gzip -9n > "$archive"
  platforms+=("linux/$arch=$file") archives+=("linux/$arch=$archive")
done
native=$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')

# The archive, as a user installs it.
mkdir -p "$work/installed"
tar --extract --gzip --file "$out/supercargo-$version-linux-$native.tar.gz" --directory "$work/installed"
reported=$("$work/installed/supercargo" --version)
[[ $reported == "supercargo $version "* && $reported != *$'\n'* ]] || fail "the installed program reports $reported, not $version"
check "archive: installed, reports $reported"
[[ $("$work/installed/kubectl-supercargo" queue --help) == *'kubectl supercargo queue'* ]] || fail "the plugin does not know its name"
check "kubectl plugin: help has kubectl's usage"
[[ $("$work/installed/supercargo" plan free-nodes --all-possible --cluster docs/plan/cluster.yaml -o json) == *'"worker-4"'* ]] ||
  fail "the installed program plans nothing"
check "archive: plans with a cluster from files"

# A program for another machine runs under qemu-user, if it is installed, and decides the same there.
decisions() { "$@" simulate --cluster examples/nodes.yaml --pods examples/12-workloads/pods.yaml --tie-break name -o json 2> /dev/null; }
for program in "${programs[@]}"; do
  arch=${program%%=*} file=${program#*=}
  [ "$arch" != "$native" ] || continue
  emulator=qemu-$(echo "$arch" | sed 's/amd64/x86_64/; s/arm64/aarch64/')
  emulator=$(command -v "$emulator-static" || command -v "$emulator" || true)
  if [ -n "$emulator" ]; then
    decisions "$work/installed/supercargo" > "$work/native.json" || fail "the installed program does not simulate"
    decisions "$emulator" "$file" > "$work/emulated.json" || fail "linux/$arch: the program does not run under $emulator"
    cmp "$work/native.json" "$work/emulated.json" || fail "linux/$arch: other decisions under qemu-user than on this machine"
    check "linux/$arch: under qemu-user, reports $("$emulator" "$file" --version), and decides as on this machine"
  else
    check "linux/$arch: not run, since there is no qemu-user on this machine"
  fi
done

# The image.
"$image" build --out "$out/image" --version "$version" --revision "$revision" --created "$SOURCE_DATE_EPOCH" \
  --sbom "$out/supercargo.cdx.json" "${platforms[@]}" > "$out/image.digest"
"$image" build --out "$work/image" --version "$version" --revision "$revision" --created "$SOURCE_DATE_EPOCH" \
  --sbom "$out/supercargo.cdx.json" "${platforms[@]}" > "$work/image.digest"
diff -r "$out/image" "$work/image" > /dev/null || fail "a second image differs from the first"
check "image: built twice with equal bytes, $(cat "$out/image.digest")"
"$image" check "$out/image"
check "image: every digest, size and platform is right"
"$image" unpack "$out/image" --platform "linux/$native" --to "$work/unpacked"
"$work/unpacked/supercargo" --version > /dev/null
# Under this name the program has kube-scheduler's defaults, and prints kube-scheduler's version.
"$work/unpacked/usr/local/bin/kube-scheduler" --version > /dev/null
check "image: unpacked, runs as supercargo and as kube-scheduler"
tar --create --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --directory "$out/image" . > "$out/supercargo-$version-image.tar"

# Image and chart, pushed to a registry in memory. The chart is pulled again.
"$helm" package manifests/chart/supercargo --destination "$out" > /dev/null
chart=$out/supercargo-$version.tgz
[ -f "$chart" ] || fail "the chart's version differs from $version of Cargo.toml"
coproc REGISTRY { "$image" registry; }
read -r address <&"${REGISTRY[0]}"
"$image" push "$out/image" "$address/supercargo:$version" --insecure
check "image: pushed to a registry in memory, which returns the same digest"
"$helm" push "$chart" "oci://$address/charts" --plain-http > /dev/null 2>&1
"$helm" pull "oci://$address/charts/supercargo" --version "$version" --plain-http --destination "$work" > /dev/null 2>&1
eval "exec ${REGISTRY[1]}>&-"
cmp "$chart" "$work/supercargo-$version.tgz" || fail "the chart that the registry returns differs"
check "chart: pushed to a registry and pulled, equal bytes"
"$helm" template supercargo "$work/supercargo-$version.tgz" --kube-version 1.36.0 > "$work/rendered.yaml"
grep -q "supercargo:$version\"\?$" "$work/rendered.yaml" || fail "the chart does not use the image of $version"
check "chart: renders, and uses the image of this version"

# The kubectl plugin's manifest, notes and checksums.
tests/release/krew.sh "$version" "${archives[@]}" > "$out/supercargo.yaml"
"$krew" -manifest "$out/supercargo.yaml" -skip-install > "$work/krew.txt" 2>&1 || { cat "$work/krew.txt" >&2; fail "Krew rejects the manifest"; }
check "Krew: the manifest is valid"
tests/release/notes.sh "$version" > "$out/notes.md"
check "notes: $(wc -l < "$out/notes.md") lines of CHANGELOG.md"
(cd "$out" && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%f\n' | sort | xargs sha256sum > SHA256SUMS && sha256sum --check --quiet SHA256SUMS)
check "checksums: SHA256SUMS names all files"

printf '\nArtifacts in %s\n' "${out#"$PWD"/}"
(cd "$out" && find . -maxdepth 1 -type f -printf '%s %f\n' | sort -k2 | while read -r size name; do printf '  %12s  %s\n' "$size" "$name"; done)
printf '\nChecks\n'
printf '  %s\n' "${done_checks[@]}"
[ -n "${BINARY_ARM64:-}" ] || echo "  linux/arm64: not built on this machine, see above; the workflow builds it on an arm64 runner"
rm -rf "$work"
