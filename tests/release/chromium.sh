#!/usr/bin/env bash
# Sees to a browser for the tests of the report's page: Debian's packages chromium and chromium-driver, installed where that can be done.
#
#   tests/release/chromium.sh
set -euo pipefail
missing() { ! command -v "${CHROMIUM:-chromium}" >/dev/null || ! command -v "${CHROMEDRIVER:-chromedriver}" >/dev/null; }

missing || exit 0
if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
  echo "installing chromium and chromium-driver" >&2
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium chromium-driver fonts-dejavu-core >/dev/null
fi
if missing; then
  echo "the tests of the report's page need a browser: install Debian's packages chromium and chromium-driver (as root: apt-get install chromium" >&2
  echo "chromium-driver), or name others of the same version by CHROMIUM and CHROMEDRIVER" >&2
  exit 1
fi
