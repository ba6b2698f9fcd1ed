#!/usr/bin/env bash
# Makes one folder with what tests/gpu.sh needs on a bare CUDA machine: nothing else of ours has to be installed there.
#   tests/gpu_pack.sh [--out DIR]      default: build-gpu-pack, which git ignores
#
#   DIR/bin        longwave, kernel_suite, gpu_kernels, bench_worker: built here with CUDA for sm_80 and sm_90a
#   DIR/lib.tar.gz the shared libraries they were linked with, the CUDA runtime's too, and Open MPI's plugins in lib/openmpi
#   DIR/data       tokens to train on
#   DIR/about.txt  commit, compiler, the newest symbols of the C and C++ libraries that the machine must have
#
# From the machine come the driver, libcublasLt and libnccl of the same major version as here, and the C and C++ libraries.
# Works on Debian 12 with nvcc; it installs what else is missing. Doing it again rebuilds what changed.
set -euo pipefail
caller=$PWD
cd "$(dirname "$0")/.."
. jobs/setup.sh

limit_mib=60
out="build-gpu-pack"
while [ $# -gt 0 ]; do
  case $1 in
    --out) out=${2:?--out wants a folder}; case $out in /*) ;; *) out=$caller/$out ;; esac; shift ;;
    --help) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) say "unknown argument $1; see tests/gpu_pack.sh --help" >&2; exit 78 ;;
  esac
  shift
done

programs=(longwave kernel_suite gpu_kernels bench_worker)
build="build-gpu"
cuda=${CUDA_HOME:-/usr/local/cuda}
[ -x "$cuda/bin/nvcc" ] || fail "no nvcc in $cuda/bin; set CUDA_HOME to a CUDA toolkit of version 12 or newer."

install_packages "${longwave_packages[@]}" libgtest-dev libgmock-dev

# No path of this machine stays in the programs: tests/gpu.sh says where their libraries are.
configure() {
  cmake -S . -B "$build" -G Ninja -DLONGWAVE_CUDA=ON -DLONGWAVE_TESTS=ON -DLONGWAVE_SIMT=OFF -DCMAKE_SKIP_RPATH=ON \
    "-DCMAKE_CUDA_COMPILER=$cuda/bin/nvcc" \
    ${LONGWAVE_COMPILER_LAUNCHER:+"-DCMAKE_CXX_COMPILER_LAUNCHER=$LONGWAVE_COMPILER_LAUNCHER"}
}
if [ ! -f "$build/build.ninja" ]; then
  say "Configuring into $build/"
  log=$(mktemp)
  configure >"$log" 2>&1 || { cat "$log"; rm -f "$log" "$build/build.ninja"; fail "cmake failed."; }
  rm -f "$log"
fi
say "Building with CUDA (ten minutes the first time)"
ninja -C "$build" --quiet "${programs[@]}" || fail "The build failed."

rm -rf "$out"
mkdir -p "$out/bin" "$out/data"
lib=$(mktemp -d)/lib
trap 'rm -rf "$(dirname "$lib")"' EXIT
mkdir -p "$lib/openmpi"
say "Packing into $out"
for program in "${programs[@]}"; do
  found=$(find "$build" -maxdepth 3 -type f -name "$program" -perm -u+x -print -quit)
  strip -o "$out/bin/$program" "$found"
done

# Of Open MPI's plugins those that need no interconnect's library: shared memory and TCP.
libmpi=$(ldconfig -p | awk '$1 == "libmpi.so.40" { print $NF; exit }')
plugins=$(dirname "$(readlink -f "$libmpi")")/openmpi/lib/openmpi3
[ -d "$plugins" ] || fail "Open MPI's plugins are not in $plugins."
for plugin in "$plugins"/mca_*.so; do
  needs=$(ldd "$plugin")
  [[ $needs =~ lib(uc[pst]|fabric|psm|ibverbs|oshmem|flux) ]] || cp "$plugin" "$lib/openmpi/"
done

cp /usr/share/openmpi/*.txt "$lib/openmpi/"  # its messages

# What the machine has to bring: its driver, the large CUDA libraries, and the C and C++ libraries, which belong together.
from_machine='^(linux-vdso|ld-linux|lib(c|m|dl|rt|pthread|resolv|util|stdc\+\+|gcc_s|cuda|cublasLt|cublas|nccl))\.so'
export LD_LIBRARY_PATH=$cuda/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
for object in "$out"/bin/* "$lib"/openmpi/*.so; do ldd "$object"; done |
  awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 } $2 == "=>" && $3 == "not" { print $1, "missing" }' | sort -u |
  while read -r name path; do
    [[ $name =~ $from_machine ]] && continue
    [ "$path" != missing ] || fail "$name is not on this machine, though a program was linked with it."
    [ -e "$lib/$name" ] || cp -L "$path" "$lib/$name"
  done

text=$build/text
if [ ! -f "$build/tokens/train.lwtok" ]; then
  say "Fetching public-domain books from Debian packages"
  jobs/fetch_text.sh "$text" >"$build/text.log" || { cat "$build/text.log"; fail "no text to train on."; }
  mkdir -p "$text/few"
  # Three megabytes are enough for the steps of a check.
  for book in emma mansfield-park northanger-abbey pride-and-prejudice sense-and-sensibility; do
    [ ! -f "$text/train/$book.txt" ] || cp "$text/train/$book.txt" "$text/few/"
  done
  "$out/bin/longwave" prepare "$text/few" --validation "$text/validation" -o "$build/tokens" --unwrap --force
fi
cp "$build"/tokens/*.lwtok "$out/data/"

newest() { objdump -T "$out"/bin/* "$lib"/*.so* | grep -oE "$1_[0-9.]+" | sort -uV | tail -n 1; }
{
  echo "commit $(git rev-parse HEAD 2>/dev/null || echo unknown)"
  "$cuda/bin/nvcc" --version | tail -n 2 | head -n 1
  echo "needs $(newest GLIBC), $(newest GLIBCXX), $(ldd "$out/bin/longwave" | awk '/cublasLt|nccl/ { printf "%s ", $1 }')"
} >"$out/about.txt"

# oneDNN's generators of code are large and alike.
tar -C "${lib%/lib}" -czf "$out/lib.tar.gz" lib

mib=$(($(du -sk "$out" | cut -f 1) / 1024))
[ "$mib" -lt $limit_mib ] || fail "$out has $mib MiB, and $limit_mib are the limit: du -a $out | sort -n shows what is large."
say "$out: $mib MiB"
cat "$out/about.txt"
