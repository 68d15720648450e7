#!/bin/sh
# Builds the example for Linux on another architecture: bundle, libllmc_hosted.a, programs.
#
#     ./cross.sh arm64|loongarch64 OUTPUT_FOLDER [MODEL]      makes bundle/, embed, embed_threads
#
# The C and C++ libraries are in LLMC_CROSS_DIR (default: build/cross of the repository); the
# compiler is clang-19. LLMC: path of llmc (default: build/llmc); CXXFLAGS: for libllmc_hosted.a.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
usage() {
  echo "usage: $0 arm64|loongarch64 OUTPUT_FOLDER [MODEL]" >&2
  exit 2
}
[ $# -eq 2 ] || [ $# -eq 3 ] || usage
case "$1" in
  arm64) target=arm64 machine=aarch64-linux-gnu sysroot=arm64 ;;
  loongarch64) target=lasx machine=loongarch64-linux-gnu sysroot=loong64 ;;
  *) usage ;;
esac
place=${LLMC_CROSS_DIR:-$root/build/cross}/$sysroot
[ -d "$place/usr/$machine" ] || {
  echo "$0: no libraries for $machine in $place; LLMC_CROSS_DIR names their place" >&2
  exit 1
}
sysroot=$(cd "$place" && pwd)
case "$sysroot" in
  *[[:space:]]*)  # flags are separated by blanks
    echo "$0: a blank in '$sysroot': LLMC_CROSS_DIR has to name a place without" >&2
    exit 1 ;;
esac
flags="--target=$machine --sysroot=$sysroot --gcc-toolchain=$sysroot/usr"

"${LLMC:-$root/build/llmc}" compile "${3:-$root/models/tinyfable}" --target=$target -q -o "$2/bundle" >&2
CXX=clang++-19 CXXFLAGS="$flags ${CXXFLAGS:-}" "$root/tools/build_hosted.sh" "$2"
CC=clang-19 CFLAGS="$flags -fuse-ld=lld" LLMC_HOSTED=$2/libllmc_hosted.a \
  LLMC_INCLUDE=$root/runtime/include "$here/build.sh" "$2/bundle" "$2"
