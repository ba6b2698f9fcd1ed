#!/usr/bin/env bash
# Tests and measures on a GPU, in parts of eight minutes at most, and prints one table.
#   tests/gpu.sh [--out DIR] [--pack DIR] [--minutes N]    what is not done yet in DIR (default: build-gpu-out), then the table
#   tests/gpu.sh --part NAME [...]                         this part alone, again if it was done
#   tests/gpu.sh --list                                    the parts
#   tests/gpu.sh --table                                   the table of what is done
#
# With --minutes it ends in time: a part that then has less than its eight minutes and needs them begins again next time.
# The programs come from the folder that tests/gpu_pack.sh made (default: build-gpu-pack); the machine needs a driver,
# libcublasLt, libnccl and python3, and for the peers PyTorch.
# DIR keeps NAME.log, NAME.json and NAME.state of every part, and table.md for tests/bench/RESULTS.md.
#
# Exit codes: 0 every part asked for is done, 1 one failed, 69 no GPU here, 75 parts are left: call it again, 78 bad arguments
set -euo pipefail
caller=$PWD
cd "$(dirname "$0")/.."

part_seconds=470
out="build-gpu-out" pack="build-gpu-pack" wanted=all budget=0
parts=(start suite train graph kernels attention 60m 180m 1.2b memcheck racecheck)

describe() {
  case $1 in
    start) echo "the programs and their libraries load (needs no GPU)" ;;
    suite) echo "every kernel against its fp64 reference" ;;
    train) echo "a training run of the 60M model" ;;
    graph) echo "its first steps as a CUDA graph and one by one: the same losses" ;;
    kernels) echo "every operation's time beside its floor" ;;
    attention) echo "attention beside PyTorch's scaled_dot_product_attention" ;;
    60m | 180m | 1.2b) echo "tokens/s of the $1 model beside PyTorch, eager and compiled" ;;
    memcheck) echo "the kernel suite under compute-sanitizer's memcheck" ;;
    racecheck) echo "the kernels with shared memory under its racecheck" ;;
  esac
}

say() { printf '%s\n' "$*"; }
refuse() { printf 'tests/gpu.sh: %s\n' "$*" >&2; exit 78; }
absolute() { case $1 in /*) printf '%s' "$1" ;; *) printf '%s' "$caller/$1" ;; esac; }

while [ $# -gt 0 ]; do
  case $1 in
    --out) out=$(absolute "${2:?--out wants a folder}"); shift ;;
    --pack) pack=$(absolute "${2:?--pack wants a folder}"); shift ;;
    --minutes)
      [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || refuse "--minutes wants a whole number, not '${2:-}'"
      budget=$((60 * $2)); shift ;;
    --part)
      [[ " ${parts[*]} " == *" ${2:-} "* && -n ${2:-} ]] || refuse "there is no part '${2:-}'; the parts are ${parts[*]}"
      wanted=$2; shift ;;
    --list) for part in "${parts[@]}"; do printf '%-10s %s\n' "$part" "$(describe "$part")"; done; exit 0 ;;
    --table) wanted=none ;;
    --help) sed -n '2,15s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) refuse "unknown argument '$1'; see tests/gpu.sh --help" ;;
  esac
  shift
done

# ---- the programs
# Folders of this machine with the CUDA libraries that the pack leaves out: of a toolkit, or those that came with PyTorch.
library_folders() {
  local folder
  for folder in ${CUDA_HOME:+"$CUDA_HOME"/lib64} /usr/local/cuda/lib64 /usr/local/cuda-*/lib64 /usr/local/cuda-*/lib \
      /usr/local/nvidia/lib64 /usr/lib/x86_64-linux-gnu; do
    [ ! -d "$folder" ] || printf '%s:' "$folder"
  done
  python3 - <<'PY' 2>/dev/null || true
import glob, site, sys
for root in {*site.getsitepackages(), site.getusersitepackages(), *sys.path}:
    for folder in glob.glob(f"{root}/nvidia/*/lib"):
        print(folder, end=":")
PY
}

# PyTorch must not see our choice of libraries, so each program gets it from a script of its own in $out/bin.
wrap_programs() {
  local program libraries
  libraries=$(library_folders)
  [ -d "$pack/bin" ] || refuse "no programs in $pack: tests/gpu_pack.sh makes it, on a machine with Debian 12 and nvcc"
  pack=$(cd "$pack" && pwd)
  if [ ! -d "$out/lib" ] || [ "$pack/lib.tar.gz" -nt "$out/lib" ]; then
    rm -rf "${out:?}/lib"
    tar -C "$out" -xzmf "$pack/lib.tar.gz"
  fi
  for program in "$pack"/bin/*; do
    cat >"$out/bin/${program##*/}" <<EOF
#!/bin/sh
export LD_LIBRARY_PATH="$out/lib:$libraries\$LD_LIBRARY_PATH"
export OPAL_PKGDATADIR="$out/lib/openmpi" OMPI_MCA_mca_base_component_path="$out/lib/openmpi" OMPI_MCA_ess_singleton_isolated=1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
exec "$program" "\$@"
EOF
    chmod +x "$out/bin/${program##*/}"
  done
}

have_gpu() { [[ $(nvidia-smi -L 2>/dev/null) == GPU* ]] || compgen -G '/dev/nvidia[0-9]*' >/dev/null; }

state_of() { cat "$out/$1.state" 2>/dev/null || echo "not done"; }

# run_part NAME SECONDS: its state becomes `done`, `left out`, `continues` or `failed`.
run_part() {
  local part=$1 limit=$2 begin=$SECONDS code=0 state
  rm -f "$out/$part.state"
  say "== $part: $(describe "$part")"
  timeout --preserve-status --kill-after=20 "$limit" tests/gpu/part.sh "$part" "$out" "$pack" >"$out/$part.log" 2>&1 ||
    code=$?
  case $code in
    0) state="done" ;;
    3) state="left out: $(tail -n 1 "$out/$part.log")" ;;
    75) state="continues: stopped with a checkpoint" ;;
    137 | 143)
      state="failed: not finished after $limit s"
      [ "$limit" -eq "$part_seconds" ] || state="continues: had $limit s, not $part_seconds" ;;
    *) state="failed: exit code $code" ;;
  esac
  echo "$state" >"$out/$part.state"
  say "   $state ($((SECONDS - begin)) s)"
  [[ $state != failed* ]] || tail -n 15 "$out/$part.log" | sed 's/^/   | /'
}

table() { python3 tests/gpu/table.py "$out" "${parts[@]}"; }

if [ "$wanted" = none ]; then
  [ -d "$out" ] || refuse "there is no folder $out"
  table
  exit 0
fi

no_gpu="tests/gpu.sh: no GPU here (nvidia-smi lists none, and there is no /dev/nvidia0); run it where one is"
if [ ! -d "$pack/bin" ] && ! have_gpu; then say "$no_gpu" >&2; exit 69; fi
mkdir -p "$out/bin"
out=$(cd "$out" && pwd)
wrap_programs

for part in "${parts[@]}"; do
  if [ "$wanted" = all ]; then
    case $(state_of "$part") in
      "done"* | "left out"*) say "== $part: $(state_of "$part"), earlier"; continue ;;
    esac
  elif [ "$wanted" != "$part" ]; then
    continue
  fi
  if [ "$part" != start ] && ! have_gpu; then say "$no_gpu" >&2; exit 69; fi
  limit=$part_seconds
  if [ "$budget" -gt 0 ] && [ $((budget - SECONDS - 30)) -lt "$limit" ]; then limit=$((budget - SECONDS - 30)); fi
  if [ "$limit" -lt 45 ]; then
    say "== $part: not begun, the time is up"
    continue
  fi
  run_part "$part" "$limit"
  # Nothing else can work then.
  [ "$part" != start ] || [ "$(state_of start)" = "done" ] || { cat "$out/start.log" >&2; exit 1; }
done

table
result=0
for part in "${parts[@]}"; do
  [ "$wanted" = all ] || [ "$wanted" = "$part" ] || continue
  case $(state_of "$part") in
    failed*) result=1 ;;
    continues* | "not done") [ $result -eq 1 ] || result=75 ;;
  esac
done
exit $result
