#!/usr/bin/env bash
# Builds, once, what counts executed instructions: qemu's user emulation with plugins, which Debian's
# static build lacks, from Debian 13's source package, and the plugin itself. About three minutes on
# two cores. The result is ${LLMC_CROSS_DIR:-build/cross}/plugins: qemu-aarch64, qemu-loongarch64,
# qemu-x86_64 and count.so. Does nothing when it is there and up to date.
#
# What the build needs is installed from the machine's own Debian packages (root or sudo). Source and
# meson come through a package list of this script's own; the machine's is not touched.
# LLMC_DEBIAN_MIRROR names the archive to use instead of the one the machine uses.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
out=${LLMC_CROSS_DIR:-$root/build/cross}/plugins
emulators=(qemu-aarch64 qemu-loongarch64 qemu-x86_64)

install_packages() {
  local package missing=() as_root=()
  for package in "$@"; do
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true) == installed ]] ||
      missing+=("$package")
  done
  if [[ ${#missing[@]} -eq 0 ]]; then return; fi
  if [[ $(id -u) -ne 0 ]]; then as_root=(sudo); fi
  echo "setup: installing ${missing[*]}" >&2
  export DEBIAN_FRONTEND=noninteractive
  "${as_root[@]}" apt-get update -qq >&2
  "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

# apt-get on the package list in $view.
private_apt() {
  apt-get -qq -o Dir::State::lists="$view/lists" -o Dir::Cache="$view/cache" \
    -o Dir::Etc::sourcelist="$view/sources.list" -o Dir::Etc::sourceparts=/dev/null \
    -o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null \
    -o Acquire::Languages=none -o APT::Sandbox::User= "$@"
}

work=
view=
build_emulators() {
  local mirror archive
  install_packages dpkg-dev gcc libc6-dev libglib2.0-dev zlib1g-dev flex bison make ninja-build pkg-config \
    python3-venv python3-setuptools python3-wheel debian-archive-keyring
  work=$(mktemp -d "$out/build.XXXXXX")
  trap '[[ -z $work ]] || rm -rf "$work"' EXIT
  view=$work/view
  mkdir -p "$view"/{lists,cache/archives}/partial
  mirror=${LLMC_DEBIAN_MIRROR:-$(apt-get indextargets --format '$(LABEL) $(REPO_URI)' \
    'Created-By: Packages' | sed -n 's/^Debian //p' | head -n 1)}
  [[ -n $mirror ]] || { echo "setup: no Debian archive found; set LLMC_DEBIAN_MIRROR" >&2; exit 1; }
  archive="[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main"
  printf 'deb-src %s\ndeb %s\n' "$archive" "$archive" > "$view/sources.list"
  cd "$work"
  private_apt update
  private_apt source --download-only qemu
  private_apt download meson # newer than the machine's; a Python program
  dpkg-source --no-check -x qemu_*.dsc source > extract.log
  dpkg -x meson_*.deb meson
  mkdir build
  cd build
  export PYTHONPATH=$work/meson/usr/lib/python3/dist-packages
  echo "setup: building qemu" >&2
  ../source/configure --python=/usr/bin/python3 --without-default-features --enable-plugins \
    --disable-system --disable-tools --disable-docs --disable-install-blobs \
    --target-list=aarch64-linux-user,loongarch64-linux-user,x86_64-linux-user > configure.log ||
    { tail -n 20 configure.log >&2; exit 1; }
  nice ninja "${emulators[@]}" > build.log || { tail -n 40 build.log >&2; exit 1; }
  strip "${emulators[@]}"
  cp ../source/include/qemu/qemu-plugin.h "$out/"
  cp "${emulators[@]}" "$out/"
  cd "$root"
}

mkdir -p "$out"
for emulator in "${emulators[@]}"; do
  if [[ ! -x $out/$emulator ]]; then
    build_emulators
    break
  fi
done
if [[ ! -e $out/count.so || $here/plugin.c -nt $out/count.so || $here/classes.h -nt $out/count.so ]]; then
  install_packages libglib2.0-dev pkg-config
  # shellcheck disable=SC2046 # flags are several words
  "${CC:-clang-19}" -std=gnu11 -O2 -Wall -Wextra -Werror -fPIC -shared -I"$out" $(pkg-config --cflags glib-2.0) \
    "$here/plugin.c" -o "$out/count.so.new"
  mv "$out/count.so.new" "$out/count.so"
fi
echo "$out"
