#!/usr/bin/env bash
# Installs what is missing, then every check: layering, formatting, build with warnings as errors,
# all tests, and the tests again under address and undefined-behaviour sanitizers.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools/setup.sh --tests
jobs=$(nproc)

echo "== layering and file sizes"
python3 tools/check_layers.py
echo "== formatting"
git ls-files -z '*.h' '*.cpp' '*.c' ':!tests/emit/golden' | xargs -0 clang-format-19 --dry-run -Werror

echo "== sanitizer build (address, undefined behaviour)"
cmake --preset dev -DLLMC_BUILD_TESTS=ON >/dev/null
cmake --build build-dev --parallel "$jobs" >&2
echo "== tests under sanitizers"
ctest --test-dir build-dev --output-on-failure --no-tests=error --parallel "$jobs" -LE release-only --progress

echo "== release build"
cmake --preset release -DLLMC_BUILD_TESTS=ON >/dev/null
cmake --build build --parallel "$jobs" >&2
echo "== tests"
ctest --test-dir build --output-on-failure --no-tests=error --parallel "$jobs" --progress
