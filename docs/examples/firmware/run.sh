#!/bin/sh
# Starts what build.sh made, as the flash of qemu's machine `virt`; ends when the firmware switches off.
#
#     ./run.sh arm64|loongarch64 [OUTPUT_FOLDER]
#
# Processors: a Cortex-A76 (dot products, no i8mm); an LA464 (LASX). QEMU_SYSTEM names another qemu.
set -eu
case "${1:-}" in
  arm64) qemu=qemu-system-aarch64 cpu=cortex-a76 ;;
  loongarch64) qemu=qemu-system-loongarch64 cpu=la464 ;;
  *)
    echo "usage: $0 arm64|loongarch64 [OUTPUT_FOLDER]" >&2
    exit 2
    ;;
esac
exec "${QEMU_SYSTEM:-$qemu}" -M virt -cpu $cpu -m 128M -bios "${2:-$1}/firmware.bin" \
  -display none -monitor none -serial stdio -nic none
