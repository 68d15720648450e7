#!/usr/bin/env bash
# Installs what llmc needs to build (and with --tests, to test) from Debian 12's packages.
# Does nothing, and needs no rights, when everything is there. Otherwise root or sudo.
set -euo pipefail

packages=(
  cmake ninja-build ccache g++                    # build; g++ brings the C++ standard library
  clang-19 lld-19 llvm-19                         # compiles llmc and what llmc emits
  libonnx-dev libprotobuf-dev protobuf-compiler   # reading ONNX
  libcli11-dev nlohmann-json3-dev libfmt-dev libxxhash-dev
  libedit-dev                                     # lines of `llmc chat`
)
if [[ ${1:-} == --tests ]]; then
  packages+=(libgtest-dev libgmock-dev libsentencepiece-dev libclang-rt-19-dev
             clang-format-19 clang-tidy-19 python3 libbenchmark-dev binutils
             libopenmpi-dev openmpi-bin        # stages of a model on ranks
             pocl-opencl-icd ocl-icd-libopencl1)  # an OpenCL device on the processor
fi

# shellcheck source=tools/lib/install.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/install.sh"
install_packages "${packages[@]}"
