#!/usr/bin/env bash
# Builds, once, what counts executed instructions: qemu's user emulation with plugins, which Debian's
# static build lacks, from Debian 13's source package, and the plugin itself. Three minutes of processor
# time. The result is ${LLMC_CROSS_DIR:-build/cross}/plugins: qemu-aarch64, qemu-loongarch64 and
# count.so. Does nothing when they are there and up to date.
#
#   tools/instructions/setup.sh [--x86] [--quick]
#
# --x86: qemu-x86_64, too. --quick: built without optimization, in two thirds of the time; the counts are
# the same and come more slowly, which is good enough for tests. Without --quick such emulators are built
# again. (qemu-x86_64 is optimized always, and what is built with it.)
#
# What the build needs is installed from the machine's own Debian packages (root or sudo). Source and
# meson come through a view of their own (tools/lib/debian_view.sh).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$root/tools/lib/debian_view.sh"
. "$root/tools/lib/install.sh"

architectures=(aarch64 loongarch64)
optimization=1
for argument in "$@"; do
  case $argument in
    --x86) architectures+=(x86_64) ;;
    --quick) optimization=0 ;;
    *) echo "usage: tools/instructions/setup.sh [--x86] [--quick]" >&2; exit 2 ;;
  esac
done
out=${LLMC_CROSS_DIR:-$root/build/cross}/plugins
mkdir -p "$out"
out=$(cd "$out" && pwd)
exec 9> "$out/lock"
flock 9

build_emulators() {
  local work=$out/work cc=gcc
  install_packages dpkg-dev gcc libc6-dev libglib2.0-dev zlib1g-dev make ninja-build pkg-config \
    python3-venv python3-setuptools python3-wheel
  rm -rf "$work"
  mkdir -p "$work/build"
  trap "rm -rf '$work'" EXIT
  cd "$work"
  debian_view_types="deb deb-src" debian_view_open "$work/view" trixie
  # meson is newer than the machine's; a Python program.
  { debian_view apt-get source --download-only qemu && debian_view apt-get download meson; } > download.log 2>&1 ||
    { tail -n 4 download.log >&2; exit 1; }
  dpkg-source --no-check -x qemu_*.dsc source > extract.log
  dpkg -x meson_*.deb meson
  cd build
  if command -v ccache > /dev/null; then cc="ccache gcc"; fi
  # Little optimization: most of an emulator's time is in what it generates, most of a build in gcc.
  # The code for x86-64 counts on gcc to find calls that are never made.
  if [[ " ${missing[*]} " == *" x86_64 "* ]]; then optimization=2; fi
  echo "setup: building qemu for ${missing[*]}" >&2
  PYTHONPATH=$work/meson/usr/lib/python3/dist-packages ../source/configure --python=/usr/bin/python3 --cc="$cc" \
    --without-default-features --enable-plugins --disable-system --disable-tools --disable-docs \
    --disable-install-blobs --disable-debug-info -Doptimization=$optimization \
    --target-list="$(printf '%s-linux-user,' "${missing[@]}")" > configure.log 2>&1 ||
    { tail -n 20 configure.log >&2; exit 1; }
  PYTHONPATH=$work/meson/usr/lib/python3/dist-packages ninja "${missing[@]/#/qemu-}" > build.log 2>&1 ||
    { tail -n 40 build.log >&2; exit 1; }
  strip "${missing[@]/#/qemu-}"
  cp ../source/include/qemu/qemu-plugin.h "$out/"
  for architecture in "${missing[@]}"; do  # under its name only when it is whole
    cp "qemu-$architecture" "$out/qemu-$architecture.new"
    mv "$out/qemu-$architecture.new" "$out/qemu-$architecture"
    if [[ $optimization == 0 ]]; then touch "$out/$architecture.quick"; else rm -f "$out/$architecture.quick"; fi
  done
  cd "$root"
}

missing=()
for architecture in "${architectures[@]}"; do
  if [[ ! -x $out/qemu-$architecture || ($optimization != 0 && -e $out/$architecture.quick) ]]; then
    missing+=("$architecture")
  fi
done
if [[ ${#missing[@]} -gt 0 ]]; then build_emulators; fi
if [[ ! -e $out/count.so || $here/plugin.c -nt $out/count.so || $here/classes.h -nt $out/count.so ]]; then
  install_packages libglib2.0-dev pkg-config
  # shellcheck disable=SC2046 # flags are several words
  "${CC:-clang-19}" -std=gnu11 -O2 -Wall -Wextra -Werror -fPIC -shared -I"$out" $(pkg-config --cflags glib-2.0) \
    "$here/plugin.c" -o "$out/count.so.new"
  mv "$out/count.so.new" "$out/count.so"
fi
echo "$out"
