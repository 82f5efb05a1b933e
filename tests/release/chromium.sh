#!/usr/bin/env bash
# Finds a browser for the tests of the page and of the report, and installs Debian's packages chromium and chromium-driver if it is missing and
# apt-get can be used. Prints how to find both, for the shell that runs the tests:
#
#   found="$(tests/release/chromium.sh)" && eval "$found"
#
# Exits 1 and says what is missing and what to do if there is no browser with its driver.
set -euo pipefail

# first <a program that was chosen> <programs...>: prints the path of the first program that exists.
first() {
  local chosen=$1 program
  shift
  [ -z "$chosen" ] || set -- "$chosen"
  for program in "$@"; do
    if command -v "$program"; then return; fi
  done
}

find_both() {
  browser=$(first "${CHROMIUM:-}" chromium chromium-browser google-chrome google-chrome-stable)
  driver=$(first "${CHROMEDRIVER:-}" chromedriver chromium.chromedriver /usr/lib/chromium/chromedriver /usr/lib/chromium-browser/chromedriver)
}

# Prints the major version of a program, such as 140. The packages of some distributions only say that another package is needed.
major() { "$1" --version 2>/dev/null | grep -oE '[0-9]+(\.[0-9]+)+' | head -1 | cut -d. -f1 || true; }

install_both() {
  local root=()
  # Programs that were chosen are used, or reported.
  [ -z "${CHROMIUM:-}${CHROMEDRIVER:-}" ] || return 0
  command -v apt-get >/dev/null || return 0
  if [ "$(id -u)" != 0 ]; then
    sudo -n true 2>/dev/null || return 0
    root=(sudo -n)
  fi
  echo "installing chromium and chromium-driver" >&2
  "${root[@]}" apt-get update -qq >&2 &&
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium chromium-driver fonts-dejavu-core >/dev/null || true
}

find_both
if [ -z "$browser" ] || [ -z "$driver" ]; then
  install_both
  find_both
fi

missing=()
[ -n "$browser" ] || missing+=("no Chromium (${CHROMIUM:-chromium, chromium-browser or google-chrome})")
[ -n "$driver" ] || missing+=("no chromedriver (${CHROMEDRIVER:-chromedriver})")
if [ "${#missing[@]}" = 0 ]; then
  of_browser=$(major "$browser") of_driver=$(major "$driver")
  [ -n "$of_browser" ] || missing+=("$browser does not start")
  [ -n "$of_driver" ] || missing+=("$driver does not start")
  [ -z "$of_browser" ] || [ -z "$of_driver" ] || [ "$of_browser" = "$of_driver" ] ||
    missing+=("$browser has version $of_browser and $driver has version $of_driver, which must be equal")
fi
if [ "${#missing[@]}" != 0 ]; then
  {
    echo "the browser tests cannot run:"
    printf '  %s\n' "${missing[@]}"
    echo "install a browser and its driver, for example Debian's packages: apt-get install chromium chromium-driver (as root)"
    echo "or set CHROMIUM and CHROMEDRIVER to the paths of a Chromium and a chromedriver of the same version"
  } >&2
  exit 1
fi
printf 'export CHROMIUM=%q CHROMEDRIVER=%q\n' "$browser" "$driver"
