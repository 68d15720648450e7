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
# computes floats, and the core, which promises not to allocate, are tested in both.
once=(llmc_tests_{support,ir,onnx,bad_inputs,passes,plan,emit,grammar,hosted,driver,evaluate,bench})
sanitized=("${once[@]}" llmc_tests_{quant,reference,core})
echo "== build with address and undefined-behaviour sanitizers"
# Without debug information: reports name functions, and places of undefined behaviour all the same.
cmake --preset dev "${configuration[@]}" -DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O0 >/dev/null
cmake --build build-dev --parallel "$jobs" --target "${sanitized[@]}" >&2
# They run beside the release build, which does not always have work for all cores.
ctest --test-dir build-dev --output-on-failure --no-tests=error --parallel "$(((jobs + 1) / 2))" \
  -L "^($(IFS='|'; echo "${sanitized[*]}"))\$" > build-dev/tests.log 2>&1 &
sanitized_tests=$!
trap 'kill "$sanitized_tests" 2>/dev/null || true' EXIT

wait "$cross" || { cat build/cross.log; exit 1; }
cat build/cross.log

echo "== release build"
cmake --preset release "${configuration[@]}" -DLLMC_LEAVE_OUT="$(IFS=';'; echo "${once[*]}")" >/dev/null
cmake --build build --parallel "$jobs" >&2
echo "== tests under sanitizers"
status=0
wait "$sanitized_tests" || status=$?
trap - EXIT
tail -n 40 build-dev/tests.log
[ "$status" = 0 ] || exit "$status"
# Libraries that tests compile share most of their sources. Tests have cache folders of their own.
if [ -x /usr/lib/ccache/clang++-19 ]; then export LLMC_CC=/usr/lib/ccache/clang++-19; fi
CCACHE_DIR=$(ccache --get-config cache_dir) && export CCACHE_DIR
echo "== tests"
# One more than cores: many tests wait for a process that they started.
ctest --test-dir build --output-on-failure --no-tests=error --parallel "$((jobs + 1))" | tail -n 60
