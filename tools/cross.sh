#!/bin/sh
# Makes the environment in which code for AArch64 and LoongArch is linked and run on this machine:
#   tools/cross.sh             qemu's user emulators, C and C++ libraries of both architectures
#   tools/cross.sh --system    and the emulators of whole machines, for firmware
# in ${LLMC_CROSS_DIR:-build/cross}:
#   bin/qemu-{aarch64,loongarch64,x86_64}         static; -L FOLDER as below
#   bin/qemu-system-{aarch64,loongarch64}         with --system
#   {arm64,loong64}/usr                           clang's --gcc-toolchain; --sysroot is the folder above
#   {arm64,loong64}/usr/TRIPLE                    headers and libraries; qemu's -L
# From Debian's packages, unpacked without installing any: needs no rights, changes nothing outside the
# folder. Clang 19 is the compiler of every architecture (tools/setup.sh). docs/cross.md has the use.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/tools/lib/debian_view.sh"

system=
case ${1:-} in
  '') ;;
  --system) system=1 ;;
  *) echo "usage: tools/cross.sh [--system]" >&2; exit 2 ;;
esac

# Raise when what is unpacked changes: an environment of another layout is made anew.
layout=1
out=${LLMC_CROSS_DIR:-$root/build/cross}
mkdir -p "$out" && cd "$out" && out=$(pwd)
exec 9> "$out/lock"
flock 9

# complete VERSIONS PATH...: whether that part is there.
complete() {
  [ -f "$out/$1" ] && [ "$(head -n 1 "$out/$1")" = "layout $layout" ] || return 1
  shift
  for path; do [ -e "$out/$path" ] || return 1; done
}
want_user=1 want_system=$system
complete versions bin/qemu-aarch64 bin/qemu-loongarch64 bin/qemu-x86_64 arm64/usr loong64/usr && want_user=
complete versions-system bin/qemu-system-aarch64 bin/qemu-system-loongarch64 && want_system=
[ -n "$want_user$want_system" ] || exit 0

[ "$(uname -m)" = x86_64 ] || {
  echo "cross: the emulators are taken for x86-64 machines; this is $(uname -m)" >&2
  exit 1
}
work=$out/work
rm -rf "$work"
mkdir -p "$work/download" "$work/unpacked" "$out/bin"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT   # a shell that is ended by a signal does not do what EXIT asks
trap 'exit 143' TERM HUP

fail() {
  echo "cross: $*" >&2
  exit 1
}

# fetch PACKAGE[/SUITE]...: downloads into an emptied folder.
fetch() {
  rm -f "$work/download/"*.deb
  (cd "$work/download" && debian_view apt-get download "$@" > "$work/log" 2>&1) || {
    tail -n 4 "$work/log" >&2
    fail "cannot download $*"
  }
}

# The package's files that match the patterns, into $work/unpacked.
unpack() {
  deb=$1
  shift
  dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$work/unpacked" --wildcards "$@"
}

note_versions() {
  file=$1
  shift
  echo "layout $layout" > "$work/$file"
  for deb; do
    echo "$(dpkg-deb -f "$deb" Package) $(dpkg-deb -f "$deb" Version)"
  done >> "$work/$file"
  mv "$work/$file" "$out/$file"  # last: with it the environment counts as complete
}

# Debian 12's own qemu lacks LASX. Trixie's user emulators are static and run on any release.
if [ -n "$want_user" ]; then
  echo "cross: emulators and libraries for AArch64 and LoongArch into $out" >&2
  debian_view_open "$work/trixie" trixie || fail "no environment"
  packages=qemu-user
  for package in libc6 libc6-dev linux-libc-dev libgcc-14-dev libgcc-s1 libstdc++-14-dev libstdc++6 \
      libatomic1; do
    packages="$packages $package-arm64-cross $package-loong64-cross"
  done
  # shellcheck disable=SC2086  # a list of words
  fetch $packages
  rm -rf "$out/arm64" "$out/loong64"
  for arch in arm64 loong64; do
    mkdir -p "$out/$arch"
    for deb in "$work"/download/*-"$arch"-cross_*.deb; do
      dpkg-deb -x "$deb" "$out/$arch"
    done
    rm -rf "$out/$arch/usr/share"
  done
  unpack "$work"/download/qemu-user_*.deb \
    ./usr/bin/qemu-aarch64 ./usr/bin/qemu-loongarch64 ./usr/bin/qemu-x86_64
  mv -f "$work"/unpacked/usr/bin/qemu-* "$out/bin/"
  note_versions versions "$work"/download/*.deb
fi

# The emulators of whole machines are linked dynamically: from packages made for this release, with the
# libraries that are not installed here beside them.
if [ -n "$want_system" ]; then
  echo "cross: emulators of whole machines into $out" >&2
  . /etc/os-release
  case ${VERSION_CODENAME:-} in
    bookworm) suites="bookworm bookworm-backports" from=/bookworm-backports ;;
    ?*) suites=$VERSION_CODENAME from= ;;
    *) fail "/etc/os-release names no release" ;;
  esac
  # shellcheck disable=SC2086
  debian_view_open "$work/release" $suites || fail "no environment"
  fetch qemu-system-arm$from qemu-system-misc$from
  unpack "$work"/download/qemu-system-arm_*.deb ./usr/bin/qemu-system-aarch64
  unpack "$work"/download/qemu-system-misc_*.deb ./usr/bin/qemu-system-loongarch64
  mkdir -p "$work/system" "$out/libexec" "$out/lib"
  mv "$work"/download/qemu-*.deb "$work/system/"

  # Their libraries, without the other parts of qemu they recommend or need for graphics and sound.
  libraries=$(dpkg-deb -f "$work"/system/qemu-system-arm_*.deb Depends | tr ',' '\n' |
              sed 's/ *\([^ (]*\).*/\1/' | grep -v '^qemu-')
  # A simulation takes the dependencies of those against what dpkg says is installed, and no lock.
  # shellcheck disable=SC2086
  debian_view apt-get install --simulate --no-upgrade --no-install-recommends $libraries > "$work/log" 2>&1 || {
    tail -n 4 "$work/log" >&2
    fail "the libraries of qemu-system cannot be found"
  }
  missing=$(sed -n 's/^Inst \([^ :]*\).*/\1/p' "$work/log")
  rm -f "$work"/download/*.deb
  if [ -n "$missing" ]; then
    # shellcheck disable=SC2086
    fetch $missing
    mv "$work"/download/*.deb "$work/system/"
    rm -rf "$work/libraries"
    for deb in "$work"/system/*.deb; do
      case $deb in */qemu-*) ;; *) dpkg-deb -x "$deb" "$work/libraries" ;; esac
    done
    find "$work/libraries" -maxdepth 4 -path '*/x86_64-linux-gnu/lib*.so*' -exec cp -Pf {} "$out/lib/" \;
  fi
  mv -f "$work"/unpacked/usr/bin/qemu-system-* "$out/libexec/"
  for program in qemu-system-aarch64 qemu-system-loongarch64; do
    rm -f "$out/bin/$program"
    cat > "$out/bin/$program" <<'END'
#!/bin/sh
# The emulator with the libraries beside it (tools/cross.sh).
here=$(dirname "$(readlink -f "$0")")
LD_LIBRARY_PATH=$here/../lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
exec "$here/../libexec/${0##*/}" "$@"
END
    chmod +x "$out/bin/$program"
    "$out/bin/$program" --version > "$work/log" 2>&1 || {
      cat "$work/log" >&2
      fail "$program does not start"
    }
  done
  note_versions versions-system "$work"/system/*.deb
fi
"$out/bin/qemu-loongarch64" --version > /dev/null || fail "the emulators do not start here"
