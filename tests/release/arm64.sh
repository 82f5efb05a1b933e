#!/usr/bin/env bash
# Cross-compiles the program for arm64, or prints what this machine lacks. On an arm64 machine use `make release-binary`.
set -euo pipefail
cd "$(dirname "$0")/../.."
triple=aarch64-unknown-linux-gnu linker=aarch64-linux-gnu-gcc
if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$triple" ]; then
  echo "arm64: not built, the target is not installed: rustup target add $triple"
elif ! command -v "$linker" > /dev/null; then
  echo "arm64: not built, $linker is missing (Debian: gcc-aarch64-linux-gnu libc6-dev-arm64-cross): it compiles ring's C code and links"
else
  export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$linker
  RUSTFLAGS="-C target-feature=+crt-static" cargo build --locked --release --target "$triple" --bin supercargo
  file=${CARGO_TARGET_DIR:-target}/$triple/release/supercargo
  # Bytes 18 and 19 of an ELF file are the architecture; 183 is arm64.
  [ "$(od -An -tu2 -j18 -N2 "$file" | tr -d ' ')" = 183 ] || { echo "arm64: $file is for another machine" >&2; exit 1; }
  echo "arm64: built, $(stat -c %s "$file") bytes"
fi
