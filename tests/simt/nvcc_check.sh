#!/usr/bin/env bash
# Holds a source of the CUDA backend against the CUDA toolkit, warnings being errors:
#   nvcc_check.sh NVCC 90a core/backend/cuda/norm.cu       a kernel source for a GPU; spilled registers are refused too
#   nvcc_check.sh NVCC host core/backend/cuda/memory.cpp   a host source against the toolkit's headers, compiled to nothing
set -euo pipefail
nvcc=$1 architecture=$2 source=$3
cd "$(dirname "$0")/../.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if [ "$architecture" = host ]; then
  "${CXX:-c++}" -std=c++20 -fsyntax-only -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Werror -DFMT_SHARED -I. \
    -isystem "$(dirname "$(readlink -f "$nvcc")")/../include" "$source"
  exit
fi
if ! "$nvcc" -std=c++20 -O3 -gencode="arch=compute_$architecture,code=sm_$architecture" -I. -Xptxas -v -Werror all-warnings \
    -Xcompiler -Wall,-Wextra -c "$source" -o "$scratch/object.o" >"$scratch/log" 2>&1; then
  cat "$scratch/log"
  exit 1
fi
# The compiler says for each kernel: "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads".
grep -q "bytes spill stores" "$scratch/log" || { echo "no kernel was compiled from $source"; exit 1; }
if grep "bytes spill stores" "$scratch/log" | grep -v " 0 bytes spill stores, 0 bytes spill loads"; then
  echo "$source spills registers on sm_$architecture"
  exit 1
fi
