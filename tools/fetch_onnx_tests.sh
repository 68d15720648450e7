#!/bin/sh
# Puts ONNX's own test data (Debian package libonnx-testdata, as new as there is) into a folder:
#   tools/fetch_onnx_tests.sh FOLDER      ->  FOLDER/data/node/test_*/, FOLDER/version
# Debian sid is read through a package view of its own inside FOLDER, built from the machine's apt
# configuration; the machine's sources and lists are left alone. Without sid: the machine's release.
set -eu

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
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || {
  echo "no apt on this machine" >&2
  exit 1
}

view=$out/apt
mkdir -p "$view/lists/partial" "$view/cache/archives/partial" "$view/download"
# Where the machine takes Debian's main archive from: an archive with a codename of its own, no
# -updates or -security.
uri=$(apt-get indextargets --format '$(ORIGIN)|$(CODENAME)|$(COMPONENT)|$(REPO_URI)' \
        'Created-By: Packages' 2>/dev/null |
      awk -F'|' '$1 == "Debian" && $2 !~ /-/ && $3 == "main" { print $4; exit }')

apt_in_view() {
  command=$1
  shift
  apt-get -q -o Dir::State::lists="$view/lists" -o Dir::Cache="$view/cache" \
          -o Dir::Etc::sourcelist="$view/sources.list" -o Dir::Etc::sourceparts=- \
          -o Dir::Etc::preferences=- -o Dir::Etc::preferencesparts=- \
          -o APT::Get::List-Cleanup=0 -o Acquire::Languages=none "$command" "$@"
}

if [ -n "$uri" ]; then
  printf 'deb %s sid main\n' "$uri" > "$view/sources.list"
  if apt_in_view update > "$view/log" 2>&1 &&
     (cd "$view/download" && apt_in_view download "$package" >> "$view/log" 2>&1); then
    from=sid
  fi
fi
if [ -z "${from:-}" ]; then
  (cd "$view/download" && apt-get -q download "$package" >> "$view/log" 2>&1) || {
    echo "the package $package cannot be reached:" >&2
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
