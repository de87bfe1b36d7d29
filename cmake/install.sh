#!/bin/sh
# Installs what a task needs and this machine lacks: cmake/install.sh build|test|web|page|chromium|fuzz|bench|slurm|trace ...
# On Debian and its relatives through apt-get; elsewhere it says what is missing and stops.
set -eu

build="cmake ninja-build g++ python3 libfmt-dev nlohmann-json3-dev libtomlplusplus-dev libcli11-dev libexpected-dev zlib1g-dev"
test="libgtest-dev clang-tidy clang-format python3-jsonschema mold"
web="emscripten node-acorn"
page="npm"
chromium="chromium fonts-dejavu-core"
firefox="firefox-esr"
fuzz="clang libclang-rt-dev"
bench="libbenchmark-dev"
trace="nodejs python3-venv"
python="python3-dev python3-venv"
package="git pkg-config unzip binutils dpkg"
roots="debootstrap buildah"
slurm="munge slurmctld slurmd slurm-client slurm-wlm-basic-plugins"

missing=""
for task in "$@"; do
  eval "packages=\${$task}"
  for package in $packages; do
    # What is there is used, wherever it came from.
    case $package in
      cmake | g++ | python3 | npm | chromium | firefox-esr | clang | clang-tidy | clang-format) command -v "$package" >/dev/null && continue ;;
      ninja-build) command -v ninja >/dev/null && continue ;;
      nodejs) command -v node >/dev/null && continue ;;
      emscripten) command -v em++ >/dev/null && command -v node >/dev/null && continue ;;
      git | unzip) command -v "$package" >/dev/null && continue ;;
      python3-dev) python3 -c 'import os, sysconfig; os.stat(sysconfig.get_paths()["include"] + "/Python.h")' \
        2>/dev/null && continue ;;
    esac
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -q '^installed$' && continue
    missing="$missing $package"
  done
done
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null; then
  echo "Missing, by their Debian names:$missing" >&2
  exit 1
fi
echo "Installing with apt-get:$missing"
as_root=""
[ "$(id -u)" -eq 0 ] || as_root="sudo"
$as_root apt-get update -qq
# shellcheck disable=SC2086
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
  -o DPkg::Lock::Timeout=300 $missing </dev/null
