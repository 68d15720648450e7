#!/bin/sh
# Builds libllmc_hosted.a for another machine than this one, which CMake's build is for:
#
#     CXX=clang++-19 CXXFLAGS='--target=aarch64-linux-gnu --sysroot=…' tools/build_hosted.sh FOLDER
#
# FOLDER gets libllmc_hosted.a. Any compiler of C++20 will do; AR names its archiver (default:
# llvm-ar-19, which takes objects of every architecture). Needs nlohmann-json's header, as the build
# here does. JOINED=1 compiles all sources as one, in a fifth of the time; programs are larger then,
# as a linker takes objects whole. On a command line it is before the model's archive.
set -eu
[ $# -eq 1 ] || {
  echo "usage: [CXX=…] [CXXFLAGS=…] [AR=…] $0 FOLDER" >&2
  exit 2
}
root=$(cd "$(dirname "$0")/.." && pwd)
json=${JSON_INCLUDE:-/usr/include}
[ -f "$json/nlohmann/json.hpp" ] || {
  echo "$0: nlohmann/json.hpp is not in $json; JSON_INCLUDE names its place" >&2
  exit 1
}
mkdir -p "$1"
out=$(cd "$1" && pwd)
work=$(mktemp -d "$out/objects.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/include"
ln -s "$json/nlohmann" "$work/include/nlohmann" # alone: the folder may hold another machine's headers
cd "$work"
sources() {
  if [ -z "${JOINED:-}" ]; then
    printf '%s\0' "$root"/runtime/hosted/*.cpp "$root"/runtime/hosted/*/*.cpp
    return
  fi
  printf '#include "%s"\n' "$root"/runtime/hosted/*.cpp "$root"/runtime/hosted/*/*.cpp >hosted.cpp
  printf '%s\0' hosted.cpp
}
# shellcheck disable=SC2086 # flags are several words
sources |
  xargs -0 -P "$(nproc)" -n 1 "${CXX:-clang++-19}" -std=c++20 -O2 -fPIC -I"$root" \
    -I"$root/runtime/include" -isystem include ${CXXFLAGS:-} -c
rm -f "$out/libllmc_hosted.a"
"${AR:-llvm-ar-19}" rcsD "$out/libllmc_hosted.a" ./*.o
