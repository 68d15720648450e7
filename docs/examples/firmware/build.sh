#!/bin/sh
# Builds the firmware: model, program, image.
#
#     ./build.sh arm64|loongarch64 [OUTPUT_FOLDER [PROMPT [TOKENS]]]
#
# Writes firmware.elf, firmware.bin, which run.sh starts, and intermediate files to OUTPUT_FOLDER.
# SYSTEM_PROMPT: file with a text before PROMPT that is run at compile time, not on the board.
# LLMC: path of llmc (default: build/llmc of the repository). CC, LD, OBJCOPY: defaults are clang-19,
# ld.lld-19 and llvm-objcopy-19.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
case "${1:-}" in
  arm64) target=arm64 flags="--target=aarch64-none-elf -march=armv8.2-a" ;;
  loongarch64) target=lasx flags="--target=loongarch64-none-elf -march=la464" ;;
  *)
    echo "usage: $0 arm64|loongarch64 [OUTPUT_FOLDER [PROMPT [TOKENS]]]" >&2
    exit 2
    ;;
esac
board=$here/$1
out=${2:-$1}
prompt=${3:-Once upon a time}
tokens=${4:-300}
system=${SYSTEM_PROMPT:-}
llmc=${LLMC:-$root/build/llmc}
cc=${CC:-clang-19} ld=${LD:-ld.lld-19} objcopy=${OBJCOPY:-llvm-objcopy-19}

mkdir -p "$out"
"$llmc" compile "$root/models/tinyfable" --target=$target --threads-max=1 -q -o "$out/model" \
  ${system:+--system-prompt "$system"} >&2
ids=$("$llmc" tokenize "$out/model" ${system:+--no-prefix} -- "$prompt")
printf '#define PROMPT_IDS %s\n#define TOKENS %d\n' "$ids" "$tokens" >"$out/prompt.h"
"$llmc" tokenize "$out/model" --c-table >"$out/pieces.h"

for source in "$board/start.S" "$board/board.c" "$here/main.c" "$here/memory.c"; do
  object=$(basename "$source")
  # shellcheck disable=SC2086 # flags are several words
  "$cc" $flags -std=c11 -O2 -ffreestanding -nostdlibinc -fno-pic -Wall -Wextra -Werror \
    -I"$here" -I"$out" -I"$out/model" -c "$source" -o "$out/${object%.*}.o"
done
cd "$out" # sections.ld has the names as they stand here
"$ld" -nostdlib -static --gc-sections --fatal-warnings --orphan-handling=error -L "$here" \
  -T "$board/image.ld" -o firmware.elf start.o board.o main.o memory.o model/libtinyfable.a
"$objcopy" -O binary firmware.elf firmware.bin
echo "$PWD/firmware.bin"
