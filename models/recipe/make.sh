#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Rebuilds models/tinyfable from scratch: text, tokenizer, training, export, check.
# usage: make.sh [WORK] [OUT]   WORK receives the checkpoint and may be deleted afterwards.
# Debian packages: python3-torch python3-onnx python3-sentencepiece python3-numpy
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
work=${1:-${TMPDIR:-/tmp}/tinyfable-work}
out=${2:-$here/../tinyfable}
export PYTHONDONTWRITEBYTECODE=1
cd "$here"
/usr/bin/python3 train.py --work "$work"
/usr/bin/python3 export.py --work "$work" --out "$out"
/usr/bin/python3 check_onnx.py "$out"
