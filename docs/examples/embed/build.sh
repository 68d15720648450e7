#!/bin/sh
# Builds the example against a bundle that `llmc compile MODEL --target=avx2 -o BUNDLE` wrote.
#
#     ./build.sh BUNDLE [OUTPUT_FOLDER]      makes embed, embed_threads, embed_schema, embed_chat
#                                            and embed_nostdlib
#
# and prints their paths; also embed_grammar if the bundle contains a grammar, and embed_image if it
# contains an image encoder that reads pixels alone.
#
# CC: the compiler (default: cc); CFLAGS: additional flags. cross.sh uses both to build for other
# machines. embed_threads, embed_schema and embed_chat are built only if LLMC_HOSTED is the path of
# libllmc_hosted.a and LLMC_INCLUDE the folder with llmc/hosted.h.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
usage() {
  echo "usage: $0 BUNDLE [OUTPUT_FOLDER]" >&2
  echo "BUNDLE: the folder that llmc compile MODEL -o BUNDLE wrote" >&2
  exit 2
}
[ $# -eq 1 ] || [ $# -eq 2 ] || usage
bundle=$1
out=${2:-.}
cc=${CC:-cc}

set -- "$bundle"/*.plan.json
[ $# -eq 1 ] && [ -f "$1" ] || { echo "$0: $bundle is not a bundle" >&2; usage; }
name=$(basename "$1" .plan.json)
macro=$(printf %s "$name" | tr a-z A-Z)

mkdir -p "$out"
build() {
  output=$1
  shift
  # shellcheck disable=SC2086 # flags are several words
  "$cc" ${CFLAGS:-} -std=c99 -O2 -Wall -Wextra -I"$bundle" -DMODEL_HEADER="\"$name.h\"" \
    -DMODEL_PREFIX="$name" -DMODEL_MACRO="$macro" -o "$out/$output" "$@"
  echo "$out/$output"
}

build embed "$here/main.c" "$bundle/lib$name.a"
if grep -q "^#define ${macro}_GRAMMAR_BYTES" "$bundle/$name.h"; then
  build embed_grammar "$here/grammar.c" "$bundle/lib$name.a"
fi
if grep -q "^#define ${macro}_IMAGE_INPUTS 1\$" "$bundle/$name.h" &&
  ! grep -q "^#define ${macro}_IMAGE_DIMS " "$bundle/$name.h"; then
  build embed_image "$here/image.c" "$bundle/lib$name.a"
fi
# shellcheck disable=SC2086
case "$("$cc" ${CFLAGS:-} -dumpmachine)" in
x86_64-*linux*)
  build embed_nostdlib -nostdlib -static -fno-pie -ffreestanding -fno-stack-protector \
    "$here/nostdlib.c" "$bundle/lib$name.a"
  ;;
esac
if [ -n "${LLMC_HOSTED:-}" ]; then
  # The hosted library calls the session's functions, so it precedes the model's archive.
  build embed_threads -I"${LLMC_INCLUDE:?}" "$here/threads.c" "$LLMC_HOSTED" "$bundle/lib$name.a" \
    -lstdc++ -lpthread -ldl -lm
  build embed_schema -I"$LLMC_INCLUDE" "$here/schema.c" "$LLMC_HOSTED" "$bundle/lib$name.a" \
    -lstdc++ -lpthread -ldl -lm
  build embed_chat -I"$LLMC_INCLUDE" "$here/chat.c" "$LLMC_HOSTED" "$bundle/lib$name.a" -lstdc++ \
    -lpthread -ldl -lm
fi
