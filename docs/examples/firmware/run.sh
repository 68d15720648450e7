#!/bin/sh
# Runs the image of build.sh as the flash of qemu's machine `virt`; ends when the firmware powers off.
#
#     ./run.sh arm64|loongarch64 [OUTPUT_FOLDER [QEMU_OPTION...]]
#
# Processors: a Cortex-A76 (dot products, no i8mm); an LA464 (LASX). qemu: QEMU_SYSTEM, or the one
# fetched by tools/cross.sh --system (LLMC_CROSS_DIR, default build/cross of the repository), or in PATH.
set -eu
root=$(cd "$(dirname "$0")/../../.." && pwd)
case "${1:-}" in
  arm64) qemu=qemu-system-aarch64 cpu=cortex-a76 ;;
  loongarch64) qemu=qemu-system-loongarch64 cpu=la464 ;;
  *)
    echo "usage: $0 arm64|loongarch64 [OUTPUT_FOLDER [QEMU_OPTION...]]" >&2
    exit 2
    ;;
esac
image=${2:-$1}/firmware.bin
shift
[ $# -eq 0 ] || shift
fetched=${LLMC_CROSS_DIR:-$root/build/cross}/bin/$qemu
[ ! -x "$fetched" ] || qemu=$fetched
qemu=${QEMU_SYSTEM:-$qemu}
command -v "$qemu" > /dev/null || {
  echo "$0: $qemu was not found: tools/cross.sh --system fetches it" >&2
  exit 1
}
exec "$qemu" -M virt -cpu $cpu -m 128M -bios "$image" \
  -display none -monitor none -serial stdio -nic none "$@"
