#!/bin/sh
# Builds the example with an image against two bundles, of the decoder and of its vision encoder:
#
#     llmc compile MODEL -o DECODER
#     llmc compile MODEL/vision_encoder.onnx --dim batch_size=1 … -o VISION
#     ./image.sh DECODER VISION [OUTPUT_FOLDER]      makes embed_image and prints its path
#
# CC: the compiler (default: cc); CFLAGS: additional flags.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ $# -eq 2 ] || [ $# -eq 3 ] || { echo "usage: $0 DECODER VISION [OUTPUT_FOLDER]" >&2; exit 2; }
out=${3:-.}

# Prints the name of the model in a bundle.
name_of() {
  for plan in "$1"/*.plan.json; do
    [ -f "$plan" ] || { echo "$0: $1 is not a bundle" >&2; exit 2; }
    basename "$plan" .plan.json
  done
}
decoder=$(name_of "$1")
vision=$(name_of "$2")
upper() {
  printf %s "$1" | tr a-z A-Z
}

mkdir -p "$out"
# shellcheck disable=SC2086 # flags are several words
"${CC:-cc}" ${CFLAGS:-} -std=c99 -O2 -Wall -Wextra -I"$1" -I"$2" \
  -DMODEL_HEADER="\"$decoder.h\"" -DMODEL_PREFIX="$decoder" -DMODEL_MACRO="$(upper "$decoder")" \
  -DVISION_HEADER="\"$vision.h\"" -DVISION_PREFIX="$vision" -DVISION_MACRO="$(upper "$vision")" \
  -o "$out/embed_image" "$here/image.c" "$1/lib$decoder.a" "$2/lib$vision.a"
echo "$out/embed_image"
