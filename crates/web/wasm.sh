#!/usr/bin/env bash
# Builds the engine for the page as a WebAssembly module, and prints its path.
#
#   crates/web/wasm.sh           # optimized, for the page
#   crates/web/wasm.sh --test    # for tests: built faster
set -euo pipefail
cd "$(dirname "$0")/../.."
triple=wasm32-unknown-unknown
profile=wasm
[ "${1:-}" = --test ] && profile=wasm-test

# A toolchain that rustup does not manage must have the target itself.
if ! ls "$(rustc --print sysroot)/lib/rustlib/$triple/lib" >/dev/null 2>&1; then
  if ! rustup target add "$triple" >&2; then
    echo "the page needs Rust's target $triple, which could not be installed: run \"rustup target add $triple\" with a connection to" >&2
    echo "static.rust-lang.org, or install your distribution's package with it (Debian: libstd-rust-dev-wasm32)" >&2
    exit 1
  fi
fi
# A stack of 8 MiB, as the process has: nested objects and expressions are limited by depth, not by a stack of 1 MiB.
cargo rustc --locked --quiet --package supercargo-web --lib --crate-type cdylib --target "$triple" --profile "$profile" -- -C link-arg=-zstack-size=8388608
echo "${CARGO_TARGET_DIR:-$PWD/target}/$triple/$profile/supercargo_web.wasm"
