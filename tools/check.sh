#!/usr/bin/env bash
# Installs what is missing, then every check: layering, formatting, builds with warnings as errors,
# all tests, those that read foreign input under address and undefined-behaviour sanitizers.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools/setup.sh --tests
jobs=$(nproc)

# Emulators and libraries of the other architectures, and an emulator that counts. They wait for the
# network and for one core; the sanitized part, which needs none of them, has the others.
mkdir -p build
{ tools/cross.sh --system && tools/instructions/setup.sh --quick; } > build/cross.log 2>&1 &
cross=$!

echo "== layering and file sizes"
python3 tools/check_layers.py
echo "== documentation"
python3 tools/check_docs.py
echo "== formatting"
git ls-files -z '*.h' '*.cpp' '*.c' ':!tests/emit/golden' | xargs -0 clang-format-19 --dry-run -Werror

export CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_C_COMPILER_LAUNCHER=ccache
export CCACHE_DEPEND=1  # a source that is not there yet is preprocessed once
# What was fetched above must be found: tests that miss it fail instead of being skipped.
export LLMC_REQUIRE_CROSS=1
configuration=(-DLLMC_BUILD_TESTS=ON -DLLMC_UNITY_BUILD=ON -DLLMC_TEST_SHARDS=4)

# What reads foreign input, and the runtime, is tested under sanitizers; kernels and end-to-end tests,
# which have no input but their own and take minutes when instrumented, in the release build. What
# computes floats, and the runtime's promises about allocations, are tested in both.
once=(llmc_tests_{support,ir,onnx,bad_inputs,passes,plan,emit,grammar,driver,evaluate,bench})
sanitized=("${once[@]}" llmc_tests_{quant,reference,runtime})
echo "== build with address and undefined-behaviour sanitizers"
# Without debug information: reports name functions, and places of undefined behaviour all the same.
cmake --preset dev "${configuration[@]}" -DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O0 >/dev/null
cmake --build build-dev --parallel "$jobs" --target "${sanitized[@]}" >&2
echo "== tests under sanitizers"
ctest --test-dir build-dev --output-on-failure --no-tests=error --parallel "$jobs" \
  -L "^($(IFS='|'; echo "${sanitized[*]}"))\$" \
  | tail -n 40

wait "$cross" || { cat build/cross.log; exit 1; }
cat build/cross.log

echo "== release build"
cmake --preset release "${configuration[@]}" -DLLMC_LEAVE_OUT="$(IFS=';'; echo "${once[*]}")" >/dev/null
cmake --build build --parallel "$jobs" >&2
# Libraries that tests compile share most of their sources. Tests have cache folders of their own.
if [ -x /usr/lib/ccache/clang++-19 ]; then export LLMC_CC=/usr/lib/ccache/clang++-19; fi
CCACHE_DIR=$(ccache --get-config cache_dir) && export CCACHE_DIR
echo "== tests"
ctest --test-dir build --output-on-failure --no-tests=error --parallel "$jobs" | tail -n 60
