#!/usr/bin/env bash
# nvcc_check.sh NVCC ARCHITECTURE SOURCE: compiles a kernel source for a GPU, warnings being errors, and refuses spilled registers.
#   nvcc_check.sh nvcc 90a core/backend/cuda/norm.cu
set -euo pipefail
nvcc=$1 architecture=$2 source=$3
cd "$(dirname "$0")/../.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
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
