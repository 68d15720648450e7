#!/usr/bin/env bash
# From a fresh clone to generated text: installs what is missing, builds llmc, compiles the shipped
# model for avx2 (generic where the machine has no AVX2), and lets it write.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools/setup.sh
echo "== building llmc" >&2
cmake --preset release -DLLMC_BUILD_TESTS=OFF -DLLMC_UNITY_BUILD=ON >/dev/null
# On a terminal ninja draws one line; in a log its hundreds of lines would bury the text.
if [[ -t 1 ]]; then
  cmake --build build --target llmc
else
  cmake --build build --target llmc -- --quiet >&2
fi

target=avx2
grep -qw avx2 /proc/cpuinfo || target=generic
out=build/bundles/tinyfable
echo "== llmc compile models/tinyfable --target=$target -o $out" >&2
build/llmc compile models/tinyfable --target="$target" -o "$out"
prompt='Once upon a time'
echo "== llmc run $out -p '$prompt' -n 96 --temp 0" >&2
build/llmc run "$out" -p "$prompt" -n 96 --temp 0

cat >&2 <<END

That text came from $out/libtinyfable.a: native code and weights of 4, 6 and 8 bits, no interpreter.
Try next:
  build/llmc inspect models/tinyfable             what the compiler sees in the model
  build/llmc plan models/tinyfable --ctx 128      memory, before anything is compiled
  build/llmc run $out -p 'The fox' -n 96          temperature 0.8: another text each time
  build/llmc verify models/tinyfable              native code against the float reference
  build/llmc bench models/tinyfable -t 1,2
  less $out/src/model.cpp                         the forward pass that was compiled
Link it into your own program: docs/embedding.md. Run every test: ./tools/check.sh
END
