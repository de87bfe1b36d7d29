#!/bin/sh
# Whole systems to install packages into: roots.sh FOLDER makes FOLDER/debian-11 (glibc 2.31) and FOLDER/debian-12. Needs root.
set -eu
folder=$1
mkdir -p "$folder"
make_root() { # name, Debian's name for it, packages
  [ -e "$folder/$1/complete" ] && return
  rm -rf "${folder:?}/$1"
  debootstrap --variant=minbase --include="$3" "$2" "$folder/$1" >"$folder/$1.log" 2>&1 || { tail -5 "$folder/$1.log"; exit 1; }
  touch "$folder/$1/complete"
}
make_root debian-11 bullseye python3
make_root debian-12 bookworm python3,python3-venv
