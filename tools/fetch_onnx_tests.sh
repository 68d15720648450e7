#!/bin/sh
# Puts ONNX's own test data (Debian package libonnx-testdata, as new as there is) into a folder:
#   tools/fetch_onnx_tests.sh FOLDER      ->  FOLDER/data/node/test_*/, FOLDER/version
# Debian sid is read through a package view of its own inside FOLDER, built from the machine's apt
# configuration; the machine's sources and lists are left alone. Without sid: the machine's release.
set -eu

. "$(dirname "$0")/lib/debian_view.sh"
out=${1:?usage: fetch_onnx_tests.sh FOLDER}
package=libonnx-testdata
mkdir -p "$out"
out=$(cd "$out" && pwd)
# Two tests that run side by side fetch once.
exec 9> "$out/lock"
flock 9
if [ -f "$out/version" ] && [ -d "$out/data/node" ]; then
  echo "already there: $(cat "$out/version")"
  exit 0
fi
view=$out/apt
mkdir -p "$view/download"
if debian_view_open "$view" sid 2> "$view/error" &&
   (cd "$view/download" && debian_view apt-get download "$package" >> "$view/log" 2>&1); then
  from=sid
fi
if [ -z "${from:-}" ]; then
  (cd "$view/download" && apt-get -q download "$package" >> "$view/log" 2>&1) || {
    echo "the package $package cannot be reached:" >&2
    cat "$view/error" >&2
    tail -3 "$view/log" >&2
    exit 1
  }
  from="this machine's release"
fi

file=$(ls "$view/download/$package"_*.deb | tail -1)
rm -rf "$out/unpacked" "$out/data"
dpkg-deb -x "$file" "$out/unpacked"
mv "$out/unpacked/usr/share/$package/data" "$out/data"
dpkg-deb -f "$file" Version > "$out/version"
rm -rf "$out/unpacked" "$view"
echo "ONNX test data $(cat "$out/version") from $from"
