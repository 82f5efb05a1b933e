#!/usr/bin/env bash
# Installs a browser for the tests of the report's page, if possible: Debian's packages chromium and chromium-driver.
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
  echo "chromium-driver), or set CHROMIUM and CHROMEDRIVER to others of the same version" >&2
  exit 1
fi
