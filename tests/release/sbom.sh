#!/usr/bin/env bash
# Prints the SBOM of the program in CycloneDX format: name, version, license and Cargo.lock checksum of every package. Uses cargo and downloads
# nothing.
#
#   tests/release/sbom.sh [target triple]
set -euo pipefail
cd "$(dirname "$0")/../.."
triple=${1:-$(rustc -vV | sed -n 's/^host: //p')}

cargo tree --locked --package supercargo --edges normal --target "$triple" --prefix none --no-dedupe --format '{p}|{l}' |
  sed -E 's/ \([^|]*\)//' | sort -u |
  awk -F'|' '
    function quoted(text) { gsub(/[\\"]/, "\\\\&", text); return "\"" text "\"" }
    # The lock file lists name, version and checksum of each package on consecutive lines.
    FNR == NR {
      if ($0 ~ /^name = /) name = substr($0, 9, length($0) - 9)
      if ($0 ~ /^version = /) version = substr($0, 12, length($0) - 12)
      if ($0 ~ /^checksum = /) sums[name " " version] = substr($0, 13, length($0) - 13)
      next
    }
    {
      split($1, words, " "); name = words[1]; version = substr(words[2], 2)
      if (name == "supercargo") { own = version; licence = $2; next }
      part = "    {\"type\": \"library\", \"name\": " quoted(name) ", \"version\": " quoted(version)
      part = part ", \"purl\": " quoted("pkg:cargo/" name "@" version)
      if ($2 != "") part = part ", \"licenses\": [{\"expression\": " quoted(with_or($2)) "}]"
      if ((name " " version) in sums) part = part ", \"hashes\": [{\"alg\": \"SHA-256\", \"content\": " quoted(sums[name " " version]) "}]"
      parts = parts (parts == "" ? "" : ",\n") part "}"
    }
    # Old manifests separate licenses by a slash.
    function with_or(text) { gsub(/ *\/ */, " OR ", text); return text }
    END {
      print "{\n  \"bomFormat\": \"CycloneDX\",\n  \"specVersion\": \"1.5\",\n  \"version\": 1,"
      print "  \"metadata\": {\"component\": {\"type\": \"application\", \"name\": \"supercargo\", \"version\": " quoted(own) \
        ", \"licenses\": [{\"expression\": " quoted(licence) "}]}},"
      print "  \"components\": [\n" parts "\n  ]\n}"
    }' Cargo.lock -
