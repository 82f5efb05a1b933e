#!/usr/bin/env bash
# Prints the manifest of the kubectl plugin for Krew. Each archive has the program as kubectl-supercargo.
#
#   tests/release/krew.sh VERSION linux/amd64=ARCHIVE [linux/arm64=ARCHIVE]
set -euo pipefail
version=${1:?name a version}
shift
cat <<YAML
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: supercargo
spec:
  version: v$version
  homepage: https://github.com/supercargo/supercargo
  shortDescription: Explain and simulate scheduling decisions
  description: |
    Explains why a pod is pending and what would help, simulates pods, drains
    and node pools, plans which nodes can be freed, and replays recordings.
    Decisions are those of kube-scheduler with the cluster's configuration.
  caveats: |
    To complete the words after \`kubectl supercargo\`, install the program that kubectl asks beside the plugin:
      dir=\$(dirname "\$(command -v kubectl-supercargo)")
      kubectl supercargo completion kubectl > "\$dir/kubectl_complete-supercargo"
      chmod +x "\$dir/kubectl_complete-supercargo"
  platforms:
YAML
for argument in "$@"; do
  platform=${argument%%=*} archive=${argument#*=}
  cat <<YAML
  - selector:
      matchLabels:
        os: ${platform%/*}
        arch: ${platform#*/}
    uri: https://github.com/supercargo/supercargo/releases/download/v$version/$(basename "$archive")
    sha256: $(sha256sum "$archive" | cut -d' ' -f1)
    files:
    - from: kubectl-supercargo
      to: .
    - from: LICENSE
      to: .
    bin: kubectl-supercargo
YAML
done
