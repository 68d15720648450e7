#!/bin/bash
# setup.sh [FOLDER]: puts the programs that llmc is compared with into a chroot in FOLDER (default ~/.cache/llmc-peers).
#
# It is Debian's unstable distribution (sid), from the mirror that this machine's apt already uses, with the packages llama.cpp (one CPU backend
# for every instruction set), libllama-dev, python3-gguf, python3-onnxruntime and python3-onnx. Nothing is installed outside of FOLDER except
# debootstrap, if it is missing. Needs root, for chroot and mounts; about 5 minutes and 1 GB. Running it again repairs and updates nothing that is there.
#
# To remove it: umount FOLDER/sid/{proc,dev,models} until none of them is in /proc/mounts, then rm -r FOLDER
set -euo pipefail
folder=${1:-$HOME/.cache/llmc-peers}
[ "$(id -u)" = 0 ] || { echo "setup.sh: chroot needs root: run it with sudo" >&2; exit 1; }
command -v apt-get >/dev/null || { echo "setup.sh: this way to llama.cpp needs Debian or a relative (apt, debootstrap)" >&2; exit 1; }
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -E '/debian/?$' | head -1)
[ -n "$mirror" ] || { echo "setup.sh: apt's configuration has no mirror of Debian" >&2; exit 1; }
command -v debootstrap >/dev/null || apt-get install -y --no-install-recommends debootstrap
sid=$folder/sid
mkdir -p "$folder/models"
[ -x "$sid/usr/bin/apt-get" ] || debootstrap --variant=minbase sid "$sid" "$mirror"
for name in proc dev; do mountpoint -q "$sid/$name" || mount --bind "/$name" "$sid/$name"; done
mkdir -p "$sid/models"
mountpoint -q "$sid/models" || mount --bind "$folder/models" "$sid/models"
install() { chroot "$sid" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"; }
# An index says until when it counts; of a mirror that stands still it may have passed.
chroot "$sid" apt-get -o Acquire::Check-Valid-Until=false update -q
install llama.cpp libllama-dev python3-gguf python3-numpy
# compare.py does without it.
install python3-onnxruntime python3-onnx || echo "setup.sh: no onnxruntime, its comparison is left out" >&2
echo "CPU backends: $(basename -a "$sid"/usr/lib/*/ggml/backends0/libggml-cpu-*.so | sed 's/libggml-cpu-//; s/\.so//' | tr '\n' ' ')"
