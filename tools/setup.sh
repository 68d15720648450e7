#!/usr/bin/env bash
# Installs what llmc needs to build (and with --tests, to test) from Debian 12's packages.
# Does nothing, and needs no rights, when everything is there. Otherwise root or sudo.
set -euo pipefail

packages=(
  cmake ninja-build ccache g++                    # build; g++ brings the C++ standard library
  clang-19 lld-19 llvm-19                         # compiles llmc and what llmc emits
  libonnx-dev libprotobuf-dev protobuf-compiler   # reading ONNX
  libcli11-dev nlohmann-json3-dev libfmt-dev libxxhash-dev
)
if [[ ${1:-} == --tests ]]; then
  packages+=(libgtest-dev libgmock-dev libsentencepiece-dev libclang-rt-19-dev
             clang-format-19 clang-tidy-19 python3 libbenchmark-dev binutils)
fi

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $state == installed ]] || missing+=("$package")
done
if [[ ${#missing[@]} -eq 0 ]]; then exit 0; fi

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  command -v sudo >/dev/null || { echo "setup: not root and no sudo; install: ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
echo "setup: installing ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq >&2
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
